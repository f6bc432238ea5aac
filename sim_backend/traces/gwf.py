"""Reads a job log in the Grid Workload Format of the Grid Workloads Archive (29 fields per line), column-wise.

The first 16 of its 29 fields are those of the Standard Workload Format, except that users, groups, executables and
queues may have names: U12, G3.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
import pyarrow as pa

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Trace
from offpeak.model.request import Chunk, Request
from offpeak.model.zones import zone_text
from offpeak.sim_backend.traces.records import (
    CodedNames,
    Codes,
    ColumnStore,
    Records,
    rejected_jobs,
    request_classes,
    trace_of,
)
from offpeak.sim_backend.traces.swf import lines as swf_lines
from offpeak.sim_backend.traces.swf import read as swf

COLUMNS = 29
NAMED = (swf.USER, swf.GROUP, swf.APPLICATION, swf.QUEUE, swf.PARTITION, swf.REQUESTED_KIB)
"""Fields that are read as text, including the requested memory, which may not be a number if no job has one."""
COMMENT_LINE = re.compile(rb"^[ \t]*#.*(?:\n|\Z)", re.MULTILINE)


Columns = dict[int, Float64 | Int64]
"""The used fields by number, in file order: numbers as float64[n], names as codes."""


def job_lines(text: bytes) -> bytes:
    """Return the job lines with single blanks, without comments (# or ;)."""
    return swf_lines.split_lines(COMMENT_LINE.sub(b"", text) if b"#" in text else text).body


def parse_columns(body: bytes, codes: dict[int, Codes]) -> Columns | None:
    """Return the used columns of job lines with single blanks, `codes` those of the names; None at a malformed line."""
    text = pa.dictionary(pa.int32(), pa.binary())
    table = swf_lines.read_table(body, COLUMNS, dict.fromkeys(swf.DEMAND, pa.float64()) | dict.fromkeys(NAMED, text))
    if table is None:
        return None
    numbers = {number: table.column(str(number)).to_numpy() for number in swf.DEMAND}
    if not swf_lines.are_usable(numbers):
        return None
    return numbers | {number: codes[number].of(table.column(str(number))) for number in NAMED}


def malformed_lines(text: LongText) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    for number, line in enumerate(text.lines(), 1):
        fields = line.split()
        if fields and not fields[0].startswith((b"#", b";")) and (fault := _fault(fields)):
            yield number, fault


def _fault(fields: list[bytes]) -> str:
    if len(fields) != COLUMNS:
        return f"{len(fields)} fields where {COLUMNS} are expected"
    return swf_lines.number_fault(fields, swf.DEMAND, swf.DEMAND)


EXPECTED = f"a log has one line of {COLUMNS} fields for each job"
FIELD_LIST = re.compile(rb"^[ \t]*#.*\bSubmitTime\b", re.MULTILINE)
UNKNOWN = b"-1"


BLOCK_BYTES = 1 << 20  # the size of the text that is held at once


@dataclass(frozen=True)
class _Parsed:
    columns: ColumnStore
    codes: dict[int, Codes]
    skipped_lines: int = 0


def looks_like_gwf(head: bytes) -> bool:
    """Tell whether a file with this head is such a log, by its first job line or by the field list in the comments."""
    lines = (line.split() for line in head.splitlines())
    first = next((fields for fields in lines if fields and not fields[0].startswith((b"#", b";"))), [])
    if len(first) == COLUMNS and all(map(swf_lines.NUMBER.fullmatch, first[: swf.USED_PROCESSORS])):
        return True
    return FIELD_LIST.search(head) is not None


def gwf_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Parse a log; `name` is its source for messages.

    As in the Standard Workload Format, requested processors count in replays and used processors in the logged
    schedule; if one of them is not logged, the other replaces it. Times are rounded to seconds. A malformed line raises
    BadTrace with its number; `lenient` skips and counts such lines instead.
    """
    parsed = _parsed(text, name, lenient)
    columns = parsed.columns
    unknown, empty = columns.get("runtime_s") < 0, columns.get("processors") <= 0
    job_id = columns.get("job_id")
    rejected = (
        *rejected_jobs("run time unknown (-1)", job_id[unknown]),
        *rejected_jobs("no processors", job_id[empty & ~unknown]),
    )
    kept = np.flatnonzero(~(unknown | empty))
    del job_id, unknown, empty
    trace = trace_of(
        name, _records(parsed, kept), time_zone=zone_text(zone), rejected=rejected, skipped_lines=parsed.skipped_lines
    )
    trace = replace(trace, notes=(*trace.notes, *swf.size_note(trace.jobs)))
    # Submit times are Unix times in most logs of the archive; in the others they count from the first job.
    return trace if (trace.jobs.submit_s >= swf.JANUARY_1990_S).all() else replace(trace, unix_start_s=None)


def _parsed(text: LongText, name: str, lenient: bool) -> _Parsed:
    parsed = _read(text)
    if parsed is not None:
        if not len(parsed.columns):
            raise BadTrace(f"{name}: {'has no job lines' if text.head(1) else 'is empty'}", hint=EXPECTED)
        return parsed
    dropped = swf_lines.lines_to_drop(malformed_lines(text), name, lenient=lenient)
    parsed = _read(swf_lines.without_lines(text, dropped))
    if parsed is None or not len(parsed.columns):
        raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
    return replace(parsed, skipped_lines=len(dropped))


def _read(text: LongText) -> _Parsed | None:
    """Parse all lines; return None if one is malformed."""
    store, codes = ColumnStore(), {field: Codes(UNKNOWN) for field in NAMED}
    for block in text.blocks(BLOCK_BYTES):
        if body := job_lines(block):
            columns = parse_columns(body, codes)
            if columns is None:
                return None
            store.append(_every_job(columns))
    return _Parsed(store, codes)


def _every_job(columns: Columns) -> dict[str, Int64]:
    numbers = {field: np.rint(columns[field]).astype(np.int64) for field in swf.DEMAND}
    requested, used = numbers[swf.REQUESTED_PROCESSORS], numbers[swf.USED_PROCESSORS]
    processors = np.where(requested > 0, requested, used)
    logged = swf.logged_size(requested, used)
    return {
        "job_id": numbers[swf.JOB],
        "queued_s": numbers[swf_lines.SUBMIT],
        "start_s": np.where(numbers[swf.WAIT] >= 0, numbers[swf_lines.SUBMIT] + numbers[swf.WAIT], -1),
        "runtime_s": numbers[swf.RUN],
        "estimate_s": numbers[swf.REQUESTED_TIME],
        "processors": processors,
        "logged_processors": processors if logged is None else logged,
        **{str(field): columns[field].astype(np.int64) for field in NAMED},
    }


def _records(parsed: _Parsed, kept: Int64) -> Records:
    """Return the jobs that are kept as records; the columns are given up."""
    columns = parsed.columns

    def column(name: str) -> Int64:
        whole = columns.pop(name)
        return whole if len(kept) == len(whole) else whole[kept]

    def coded(field: int) -> CodedNames:
        return parsed.codes[field].coded(column(str(field)))

    processors, logged = column("processors"), column("logged_processors")
    queue, partition = coded(swf.QUEUE), coded(swf.PARTITION)
    is_partitioned = bool((partition.code >= 0).any())
    request, requests = _requests(processors, coded(swf.REQUESTED_KIB), partition if is_partitioned else queue)
    return Records(
        job_id=column("job_id"),
        queued_s=column("queued_s"),
        start_s=column("start_s"),
        runtime_s=column("runtime_s"),
        estimate_s=column("estimate_s"),
        nodes=None,
        processors=processors,
        user=coded(swf.USER),
        group=coded(swf.GROUP),
        queue=queue,
        application=coded(swf.APPLICATION),
        energy_j=None,
        job_names={},
        logged_processors=None if (logged == processors).all() else logged,
        request=request,
        requests=requests,
        partition=partition if is_partitioned else None,
    )


def _requests(processors: Int64, memory: CodedNames, partition: CodedNames) -> tuple[Int64 | None, tuple[Request, ...]]:
    """Return the class of each job, -1 for those without a requested memory, which is given per processor."""
    kib = [
        int(min(float(text), swf_lines.LARGEST)) if swf_lines.NUMBER.fullmatch(text.encode()) else 0
        for text in memory.names
    ]

    def request_of(row: tuple[int, ...]) -> Request | None:
        count, code, number = row
        if code < 0 or kib[code] <= 0:
            return None
        partitions = (partition.names[number],) if number >= 0 else ()
        return Request(partitions, (Chunk(count, memory_mib=-(-kib[code] // 1024)),), apart=False)

    request, requests = request_classes((processors, memory.code, partition.code), request_of)
    return (request, requests) if requests else (None, ())
