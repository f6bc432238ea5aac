"""Reads a job log in the Standard Workload Format (Feitelson; 18 fields per line), plain or gzipped, column-wise."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from offpeak.errors import BadTrace
from offpeak.files import read_bytes, read_stdin
from offpeak.jobs import Jobs, Trace
from sim_backend.traces.swf.header import SwfHeader, parse_header
from sim_backend.traces.swf.jobs import USED_FIELDS, LoggedColumns, logged_jobs
from sim_backend.traces.swf.lines import COLUMNS, blocks_of, comments_of, first_fields, parse_columns
from sim_backend.traces.swf.malformed import expected_columns, malformed_lines, without_lines

JANUARY_1990_S = 631_152_000  # a log whose first second is later than this counts in Unix time
EXPECTED = "a log has one line of 18 numbers for each job"
STDIN = "standard input"


@dataclass(frozen=True)
class _Parsed:
    """A log as it stands in the file: its jobs in file order, `width` fields in every line."""

    header: SwfHeader
    columns: LoggedColumns
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
    first = next(blocks_of(text), None)
    if first is None:
        raise BadTrace(f"{name}: {'has no job lines' if text else 'is empty'}", hint=EXPECTED)
    header = parse_header(comments_of(text))
    columns = _columns(text, header)
    if columns is not None:
        return _Parsed(header, columns, first.columns, skipped_lines=0)
    wanted = _wanted(header)
    dropped = _malformed(text, wanted, name, lenient)
    text = without_lines(text, dropped)
    width = expected_columns(text, wanted)
    columns = _columns(text, header, cut=width > max(COLUMNS, *wanted))
    if columns is None:
        raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
    return _Parsed(header, columns, width, skipped_lines=len(dropped))


def _wanted(header: SwfHeader) -> tuple[int, ...]:
    return (*USED_FIELDS, header.power_column) if header.power_column else USED_FIELDS


def _columns(text: bytes, header: SwfHeader, *, cut: bool = False) -> LoggedColumns | None:
    """Return what all lines say, None if one is malformed or none is left; only a block of them is parsed at once.

    `cut` leaves out what stands behind the columns that are read, wherever it does.
    """
    logged = LoggedColumns(room=text.count(b"\n") + 1)
    wanted, width = _wanted(header), 0
    read = max(COLUMNS, *wanted)
    for block in blocks_of(text):
        lines = replace(block, body=first_fields(block.body, read)[0]) if cut else block
        width = width or lines.columns
        is_alike = lines.columns == width or min(lines.columns, width) > read
        columns = parse_columns(lines, wanted) if is_alike else None
        if columns is None:
            return None
        logged.add(columns, header.power_column)
    return logged if width else None


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
    logged = logged_jobs(parsed.columns)
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
