"""Reads a job log in the Standard Workload Format (Feitelson; 18 fields per line), plain or gzipped, column-wise."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from offpeak.errors import BadTrace
from offpeak.files import LongText, read_stdin, text_of_file
from offpeak.model.jobs import Jobs, Trace
from sim_backend.traces.swf import lines
from sim_backend.traces.swf.header import SwfHeader, parse_header
from sim_backend.traces.swf.jobs import USED_FIELDS, LoggedColumns, logged_jobs
from sim_backend.traces.swf.lines import COLUMNS, first_fields, parse_columns, split_lines
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
        return swf_trace(LongText(read_stdin(BadTrace)), STDIN, lenient=lenient)
    name = Path(source).name.removesuffix(".gz").removesuffix(".swf")
    trace = swf_trace(text_of_file(Path(source), BadTrace), str(source), lenient=lenient)
    return replace(trace, name=name)


def swf_trace(text: LongText, name: str, *, lenient: bool) -> Trace:
    """Return the log that `text` is; as `read_swf`, `name` being where it comes from."""
    return _trace(_parsed(text, name, lenient), name)


def _parsed(text: LongText, name: str, lenient: bool) -> _Parsed:
    header = parse_header(split_lines(next(text.blocks(lines.BLOCK_BYTES), b"")).comments)
    parsed = _read(text, header)
    if parsed is None or parsed.header.power_column != header.power_column:
        # Comments may stand anywhere, though they hardly ever do behind the first block.
        header = _header(text)
        parsed = _read(text, header)
    if parsed is None:
        return _without_malformed(text, header, name, lenient)
    if not parsed.width:
        raise BadTrace(f"{name}: {'has no job lines' if text.head(1) else 'is empty'}", hint=EXPECTED)
    return parsed


def _without_malformed(text: LongText, header: SwfHeader, name: str, lenient: bool) -> _Parsed:
    wanted = _wanted(header)
    dropped = _malformed(text, wanted, name, lenient)
    text = without_lines(text, dropped)
    width = expected_columns(text, wanted)
    parsed = _read(text, header, cut=width > max(COLUMNS, *wanted))
    if parsed is None or not parsed.width:
        raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
    return replace(parsed, width=width, skipped_lines=len(dropped))


def _header(text: LongText) -> SwfHeader:
    blocks = (block for block in text.blocks(lines.BLOCK_BYTES) if b";" in block)
    return parse_header(tuple(comment for block in blocks for comment in split_lines(block).comments))


def _wanted(header: SwfHeader) -> tuple[int, ...]:
    return (*USED_FIELDS, header.power_column) if header.power_column else USED_FIELDS


def _read(text: LongText, header: SwfHeader, *, cut: bool = False) -> _Parsed | None:
    """Return what all lines say, with the header that all comments make; None if a line is malformed.

    `cut` leaves out what stands behind the columns that are read, wherever it does.
    """
    logged = LoggedColumns()
    comments: list[str] = []
    wanted, width = _wanted(header), 0
    read = max(COLUMNS, *wanted)
    for text_block in text.blocks(lines.BLOCK_BYTES):
        block = split_lines(text_block)
        comments += block.comments
        if not block.body:
            continue
        if cut:
            block = replace(block, body=first_fields(block.body, read)[0])
        width = width or block.columns
        is_alike = block.columns == width or min(block.columns, width) > read
        columns = parse_columns(block, wanted) if is_alike else None
        if columns is None:
            return None
        logged.add(columns, header.power_column)
    return _Parsed(parse_header(tuple(comments)), logged, width, skipped_lines=0)


def _malformed(text: LongText, wanted: tuple[int, ...], name: str, lenient: bool) -> frozenset[int]:
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
