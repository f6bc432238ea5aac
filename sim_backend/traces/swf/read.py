"""Reads a job log in the Standard Workload Format (Feitelson; 18 fields per line), plain or gzipped, column-wise.

The header's directives describe the machine and the calendar; the parsed columns become jobs.
"""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadTrace
from offpeak.files import LongText, read_stdin, text_of_file
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import OPTIONAL_COLUMNS, Jobs, Trace
from offpeak.model.request import Chunk, Request
from offpeak.model.units import HIGHEST_NODE_W
from offpeak.sim_backend.traces.records import ColumnStore, note_on, rejected_jobs, request_classes
from offpeak.sim_backend.traces.swf import lines

JOB, WAIT, RUN, USED_PROCESSORS, REQUESTED_PROCESSORS, REQUESTED_TIME = 1, 3, 4, 5, 8, 9
USER, GROUP, APPLICATION, QUEUE = 12, 13, 14, 15
REQUESTED_KIB, PARTITION = 10, 16
DEMAND = (JOB, lines.SUBMIT, WAIT, RUN, USED_PROCESSORS, REQUESTED_PROCESSORS, REQUESTED_TIME)
USED_FIELDS = (*DEMAND, lines.STATUS, USER, GROUP, APPLICATION, QUEUE, REQUESTED_KIB, PARTITION)

JANUARY_1990_S = 631_152_000  # a log whose first second is later than this counts in Unix time
EXPECTED = "a log has one line of 18 numbers for each job"
STDIN = "standard input"
DIRECTIVE = re.compile(r";\s*(\w+)\s*:\s*(.*)")
WHOLE_NUMBER = re.compile(r"-?\d+")


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
    header = parse_header(lines.split_lines(next(text.blocks(lines.BLOCK_BYTES), b"")).comments)
    parsed = _read(text, header)
    if parsed is None or parsed.header.power_column != header.power_column:
        # Comments may be anywhere, but hardly ever after the first block.
        blocks = (block for block in text.blocks(lines.BLOCK_BYTES) if b";" in block)
        header = parse_header(tuple(comment for block in blocks for comment in lines.split_lines(block).comments))
        parsed = _read(text, header)
    skipped = 0
    if parsed is None:
        wanted = _wanted(header)
        dropped = lines.lines_to_drop(lines.malformed_lines(text, wanted), name, lenient=lenient)
        text, skipped = lines.without_lines(text, dropped), len(dropped)
        width = lines.expected_columns(text, wanted)
        parsed = _read(text, header, cut=width > max(lines.COLUMNS, *wanted))
        if parsed is None or not parsed.width:
            raise BadTrace(f"{name}: no job line can be read, {skipped:,} are malformed", hint=EXPECTED)
        parsed = replace(parsed, width=width)
    if not parsed.width:
        raise BadTrace(f"{name}: {'has no job lines' if text.head(1) else 'is empty'}", hint=EXPECTED)
    return _trace(name, parsed, skipped)


@dataclass(frozen=True)
class SwfHeader:
    """The used directives; None if the header lacks one. `power_column`, counted from 1, is an extension of offpeak."""

    processors: int | None
    nodes: int | None
    unix_start_s: int | None
    time_zone: str | None
    power_column: int | None
    notes: tuple[str, ...]


def parse_header(comments: tuple[str, ...]) -> SwfHeader:
    """Read the directives; the first one of a name counts, and one that makes no sense becomes a note."""
    matches = [match for line in comments if (match := DIRECTIVE.match(line))]
    directives = {match[1]: match[2].strip() for match in reversed(matches)}
    notes: list[str] = []

    def positive(name: str) -> int | None:
        text = directives.get(name)
        if text is None:
            return None
        match = WHOLE_NUMBER.match(text)
        if match is None:
            notes.append(f"header: {name} is not a number and is ignored: {text!r}")
        return int(match[0]) if match and int(match[0]) > 0 else None

    processors, nodes, unix_start_s = (positive(name) for name in ("MaxProcs", "MaxNodes", "UnixStartTime"))
    time_zone = None
    if name := directives.get("TimeZoneString"):
        try:
            time_zone = ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            notes.append(f"header: TimeZoneString is not a known time zone and is ignored: {name!r}")
    power_column = positive("NodePowerColumn")
    if power_column is not None and power_column <= lines.COLUMNS:
        notes.append(f"header: NodePowerColumn is a field of the format itself and is ignored: {power_column}")
        power_column = None
    return SwfHeader(processors, nodes, unix_start_s, time_zone, power_column, tuple(notes))


def _wanted(header: SwfHeader) -> tuple[int, ...]:
    return (*USED_FIELDS, header.power_column) if header.power_column else USED_FIELDS


@dataclass(frozen=True)
class _Parsed:
    """A log in the order of its file, with `width` fields in every line."""

    header: SwfHeader
    columns: "LoggedColumns"
    width: int


def _read(text: LongText, header: SwfHeader, *, cut: bool = False) -> _Parsed | None:
    """Return what all lines say, with the header that all comments make; None if a line is malformed.

    `cut` drops the fields after the columns that are read, in any line.
    """
    logged = LoggedColumns()
    comments: list[str] = []
    wanted, width = _wanted(header), 0
    read = max(lines.COLUMNS, *wanted)
    for text_block in text.blocks(lines.BLOCK_BYTES):
        block = lines.split_lines(text_block)
        comments += block.comments
        if not block.body:
            continue
        if cut:
            block = replace(block, body=lines.first_fields(block.body, read)[0])
        width = width or block.columns
        is_alike = block.columns == width or min(block.columns, width) > read
        columns = lines.parse_columns(block, wanted) if is_alike else None
        if columns is None:
            return None
        logged.add(columns, header.power_column)
    return _Parsed(parse_header(tuple(comments)), logged, width)


class RareColumn:
    """A field that most logs leave at -1: only the blocks in which a job has a value are kept."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, Int64]] = []

    def add(self, row: int, values: Float64) -> None:
        """Add the values of the jobs from that row on."""
        if values.max() > 0:
            self._blocks.append((row, np.maximum(_whole(values), -1)))

    def joined(self, jobs: int) -> Int64 | None:
        """Return the column, None if no job has a value."""
        if not self._blocks:
            return None
        column = np.full(jobs, -1)
        for row, values in self._blocks:
            column[row : row + len(values)] = values
        return column


class LoggedColumns:
    """The jobs of a log while they are read, block by block."""

    def __init__(self) -> None:
        self.store = ColumnStore()
        self.partition = RareColumn()
        self.requested_kib = RareColumn()
        self.part_rows: list[Int64] = []
        self.fractions = 0
        self.absurd_readings = 0

    def add(self, columns: lines.Columns, power_column: int | None) -> None:
        """Interpret the used fields (and the power column, if any) of a block, each float64[n] in file order."""
        requested, used = columns[REQUESTED_PROCESSORS], columns[USED_PROCESSORS]
        power_w = columns[power_column] if power_column else np.full(len(used), np.nan)
        block = Jobs(
            job_id=_whole(columns[JOB]),
            submit_s=_whole(columns[lines.SUBMIT]),
            runtime_s=_whole(columns[RUN]),
            estimate_s=_whole(columns[REQUESTED_TIME]),
            size=_whole(np.where(requested > 0, requested, used)),
            logged_size=logged_size(requested, used),
            user=np.maximum(_whole(columns[USER]), -1),
            group=np.maximum(_whole(columns[GROUP]), -1),
            queue=np.maximum(_whole(columns[QUEUE]), -1),
            application=np.maximum(_whole(columns[APPLICATION]), -1),
            logged_start_s=_whole(np.where(columns[WAIT] >= 0, columns[lines.SUBMIT] + columns[WAIT], -1)),
            node_power_w=np.where((power_w > 0) & (power_w <= HIGHEST_NODE_W), power_w, np.nan),
        )
        self.part_rows.append(len(self.store) + np.flatnonzero(np.isin(columns[lines.STATUS], lines.PARTS)))
        self.partition.add(len(self.store), columns[PARTITION])
        self.requested_kib.add(len(self.store), columns[REQUESTED_KIB])
        values = {name: column for name, column in vars(block).items() if name not in OPTIONAL_COLUMNS}
        self.store.append(values | {"logged_size": block.as_logged().size})
        times = (columns[field] for field in (lines.SUBMIT, RUN, REQUESTED_TIME))
        self.fractions += sum(int(np.count_nonzero(values != np.rint(values))) for values in times)
        if power_column:
            self.absurd_readings += int(np.count_nonzero(columns[power_column] > HIGHEST_NODE_W))


def _trace(name: str, parsed: _Parsed, skipped_lines: int) -> Trace:
    """Return the jobs of a whole log, whose columns are released one by one."""
    header, store = parsed.header, parsed.columns.store
    job_id, runtime_s, size = store.pop("job_id"), store.pop("runtime_s"), store.pop("size")
    submit_s = store.pop("submit_s")
    part, unwhole = _parts(job_id, submit_s, parsed.columns.part_rows)
    unknown, empty = (runtime_s < 0) & ~part, (size <= 0) & ~part
    rejected = (
        *rejected_jobs("run time unknown (-1)", job_id[unknown & ~unwhole]),
        *rejected_jobs("no processors", job_id[empty & ~unknown & ~unwhole]),
        *rejected_jobs("parts of a run without submit time, and no line of the whole job", np.unique(job_id[unwhole])),
    )
    part_notes = note_on(int(np.count_nonzero(part)), "of parts of runs: the line of the whole job counts", "line")
    order = _in_submit_order(submit_s, ~(unknown | empty | part | unwhole))
    del unknown, empty, part, unwhole
    joined = {
        "job_id": _in_order(job_id, order),
        "submit_s": _in_order(submit_s, order),
        "runtime_s": _in_order(runtime_s, order),
        "size": _in_order(size, order),
    }
    del job_id, submit_s, runtime_s, size
    used = _in_order(store.pop("logged_size"), order)
    logged_size = None if (used == joined["size"]).all() else used
    del used
    for column in (field.name for field in fields(Jobs) if field.name not in (*joined, *OPTIONAL_COLUMNS)):
        joined[column] = _in_order(store.pop(column), order)
    partition, kib = (rare.joined(len(store)) for rare in (parsed.columns.partition, parsed.columns.requested_kib))
    partition = None if partition is None else _in_order(partition, order)
    jobs = Jobs(**joined, logged_size=logged_size, partition=partition)
    requests: tuple[Request, ...] = ()
    if kib is not None:
        request, requests = _requests(jobs, _in_order(kib, order))
        jobs = replace(jobs, request=request)
    guessed = jobs.estimate_s <= 0
    jobs.estimate_s[guessed] = jobs.runtime_s[guessed]
    without_estimate = jobs.job_id[guessed]
    # A start of 0, often written for "unknown", is meant only where submit times are Unix times.
    is_unix_time = header.unix_start_s is None and len(jobs) and jobs.submit_s[0] >= JANUARY_1990_S
    fractions = f"times with a fraction of a second: {parsed.columns.fractions:,}, rounded to whole seconds"
    return Trace(
        name=name,
        jobs=jobs,
        processors=header.processors,
        nodes=header.nodes,
        unix_start_s=0 if is_unix_time else header.unix_start_s,
        time_zone=header.time_zone,
        rejected=rejected,
        skipped_lines=skipped_lines,
        notes=(
            *header.notes,
            *_surplus_note(parsed),
            *size_note(jobs),
            *note_on(parsed.columns.absurd_readings, "with an absurd power reading: taken as not measured"),
            *((fractions,) if parsed.columns.fractions else ()),
            *part_notes,
            *note_on(len(without_estimate), "without an estimate: the run time is used"),
        ),
        without_estimate=without_estimate,
        requests=requests,
    )


def _parts(job_id: Int64, submit_s: Int64, part_rows: list[Int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the lines of parts of jobs that have a line of their own, and the others that cannot be jobs.

    The format's usage note: a line with status 0 or 1 sums a job up, and lines with 2, 3 and 4 are its parts between
    swaps or checkpoints. A part with a submit time and without such a line is a job.
    """
    is_part = np.zeros(len(job_id), bool)
    is_part[np.concatenate([np.empty(0, np.int64), *part_rows])] = True
    if not is_part.any():
        return is_part, is_part
    has_whole = np.isin(job_id, job_id[~is_part])
    return is_part & has_whole, is_part & ~has_whole & (submit_s < 0)


def _requests(jobs: Jobs, requested_kib: Int64) -> tuple[Int64, tuple[Request, ...]]:
    """Return the class of each job, -1 for those without a requested memory, which SWF counts per processor."""
    partition = jobs.queue if jobs.partition is None else jobs.partition

    def request_of(row: tuple[int, ...]) -> Request | None:
        size, kib, number = row
        partitions = (str(number),) if number >= 0 else ()
        return Request(partitions, (Chunk(size, memory_mib=-(-kib // 1024)),), apart=False) if kib > 0 else None

    return request_classes((jobs.size, requested_kib, partition), request_of)


def logged_size(requested: Float64 | Int64, used: Float64 | Int64) -> Int64 | None:
    """Return the processors that jobs had if some differ from the requests, else None."""
    differ = (requested > 0) & (used > 0) & (requested != used)
    return _whole(np.where(used > 0, used, requested)) if differ.any() else None


def size_note(jobs: Jobs) -> tuple[str, ...]:
    """Return a note on which processors count if jobs used other numbers than they requested."""
    what = "used more or fewer processors than asked: what happened is counted with those used, replays hold those"
    return note_on(int(np.count_nonzero(jobs.as_logged().size != jobs.size)), f"{what} requested")


def _whole(values: Float64 | Int64) -> Int64:
    return np.rint(values).astype(np.int64)


def _in_submit_order(submit_s: Int64, kept: NDArray[np.bool_]) -> Int64 | None:
    """Return the indices of the jobs that are kept, by submit time; None if these are all, as they are."""
    if kept.all() and (submit_s[1:] >= submit_s[:-1]).all():
        return None
    indices = np.flatnonzero(kept)
    submits = submit_s[indices]
    in_order = bool((submits[1:] >= submits[:-1]).all())
    return indices if in_order else indices[np.argsort(submits, kind="stable")]


def _in_order(column: NDArray[Any], order: Int64 | None) -> NDArray[Any]:
    return column if order is None else column[order]


def _surplus_note(parsed: _Parsed) -> tuple[str, ...]:
    fields_behind = range(lines.COLUMNS + 1, parsed.width + 1)
    surplus = [number for number in fields_behind if number != parsed.header.power_column]
    if not surplus:
        return ()
    which = f"the {surplus[0]}th is" if len(surplus) == 1 else f"those after the {lines.COLUMNS}th are"
    return (f"{parsed.width} columns: {which} not part of SWF and {'is' if len(surplus) == 1 else 'are'} ignored",)
