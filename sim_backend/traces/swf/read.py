"""Reads a job log in the Standard Workload Format (Feitelson; 18 fields per line), plain or gzipped, column-wise."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from offpeak.errors import BadTrace
from offpeak.files import read_bytes, read_stdin
from offpeak.jobs import Jobs, Trace
from sim_backend.traces.swf.header import SwfHeader, parse_header
from sim_backend.traces.swf.jobs import USED_FIELDS, jobs_from_columns
from sim_backend.traces.swf.lines import COLUMNS, Columns, parse_columns, split_lines
from sim_backend.traces.swf.malformed import malformed_lines, without_lines

JANUARY_1990_S = 631_152_000  # a log whose first second is later than this counts in Unix time
EXPECTED = "a log has one line of 18 numbers for each job"
STDIN = "standard input"


@dataclass(frozen=True)
class _Parsed:
    """A log as it stands in the file: `columns` by field number in file order, `width` fields in every line."""

    header: SwfHeader
    columns: Columns
    width: int
    skipped_lines: int


def read_swf(source: Path | Literal["-"], *, lenient: bool = False) -> Trace:
    """Read a log from a file or, with "-", from standard input.

    A malformed line raises BadTrace with its number; `lenient` skips and counts such lines instead. Jobs without run
    time or processors are set aside in `Trace.rejected`.
    """
    if str(source) == "-":
        return swf_trace(read_stdin(BadTrace), STDIN, lenient=lenient)
    name = Path(source).name.removesuffix(".gz").removesuffix(".swf")
    trace = swf_trace(read_bytes(Path(source), BadTrace), str(source), lenient=lenient)
    return replace(trace, name=name)


def swf_trace(text: bytes, name: str, *, lenient: bool) -> Trace:
    """Return the log that `text` is; as `read_swf`, `name` being where it comes from."""
    return _trace(_parsed(text, name, lenient), name)


def _parsed(text: bytes, name: str, lenient: bool) -> _Parsed:
    lines = split_lines(text)
    if not lines.body:
        raise BadTrace(f"{name}: {'has no job lines' if text else 'is empty'}", hint=EXPECTED)
    header = parse_header(lines.comments)
    wanted = (*USED_FIELDS, header.power_column) if header.power_column else USED_FIELDS
    columns = parse_columns(lines, wanted)
    if columns is not None:
        return _Parsed(header, columns, lines.columns, skipped_lines=0)
    dropped = _malformed(text, wanted, name, lenient)
    lines = split_lines(without_lines(text, dropped))
    columns = parse_columns(lines, wanted)
    if columns is None:
        raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
    return _Parsed(header, columns, lines.columns, skipped_lines=len(dropped))


def _malformed(text: bytes, wanted: tuple[int, ...], name: str, lenient: bool) -> frozenset[int]:
    """Return the numbers of the malformed lines; BadTrace at the first one unless `lenient`."""
    dropped = set()
    for number, fault in malformed_lines(text, wanted):
        if not lenient:
            raise BadTrace(f"{name}:{number}: {fault}", hint="--lenient skips such lines and counts them")
        dropped.add(number)
    return frozenset(dropped)


def _trace(parsed: _Parsed, name: str) -> Trace:
    header = parsed.header
    logged = jobs_from_columns(parsed.columns, header.power_column)
    return Trace(
        name=name,
        jobs=logged.jobs,
        processors=header.processors,
        nodes=header.nodes,
        unix_start_s=_unix_start_s(header, logged.jobs),
        time_zone=header.time_zone,
        rejected=logged.rejected,
        skipped_lines=parsed.skipped_lines,
        notes=(*header.notes, *_surplus_note(parsed), *logged.notes),
        without_estimate=logged.without_estimate,
    )


def _unix_start_s(header: SwfHeader, jobs: Jobs) -> int | None:
    """Return the header's start; 0, often written for "unknown", is meant only where submit times are Unix times."""
    if header.unix_start_s is None and len(jobs) and jobs.submit_s[0] >= JANUARY_1990_S:
        return 0
    return header.unix_start_s


def _surplus_note(parsed: _Parsed) -> tuple[str, ...]:
    surplus = [number for number in range(COLUMNS + 1, parsed.width + 1) if number != parsed.header.power_column]
    if not surplus:
        return ()
    which = f"the {surplus[0]}th is" if len(surplus) == 1 else f"those after the {COLUMNS}th are"
    return (f"{parsed.width} columns: {which} not part of SWF and {'is' if len(surplus) == 1 else 'are'} ignored",)
