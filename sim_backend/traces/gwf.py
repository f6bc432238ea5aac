"""Reads a job log in the Grid Workload Format of the Grid Workloads Archive (29 fields per line), column-wise.

The first 16 of its 29 fields are those of the Standard Workload Format, except that users, groups, executables and
queues may have names: U12, G3.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo

import numpy as np
import pyarrow as pa

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Int64
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
EXPECTED = f"a log has one line of {COLUMNS} fields for each job"
COMMENT_LINE = re.compile(rb"^[ \t]*#.*(?:\n|\Z)", re.MULTILINE)
FIELD_LIST = re.compile(rb"^[ \t]*#.*\bSubmitTime\b", re.MULTILINE)
UNKNOWN = b"-1"
BLOCK_BYTES = 1 << 20  # the size of the text that is held at once


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
    dropped: frozenset[int] = frozenset()
    parsed = _read(text)
    if parsed is None:
        dropped = swf_lines.lines_to_drop(_malformed_lines(text), name, lenient=lenient)
        parsed = _read(swf_lines.without_lines(text, dropped))
    if parsed is None or not len(parsed[0]):
        if parsed is None or dropped:
            raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
        raise BadTrace(f"{name}: {'has no job lines' if text.head(1) else 'is empty'}", hint=EXPECTED)
    columns, codes = parsed
    unknown, empty = columns.get("runtime_s") < 0, columns.get("processors") <= 0
    job_id = columns.get("job_id")
    rejected = (
        *rejected_jobs("run time unknown (-1)", job_id[unknown]),
        *rejected_jobs("no processors", job_id[empty & ~unknown]),
    )
    kept = np.flatnonzero(~(unknown | empty))
    del job_id, unknown, empty
    records = _records(columns, codes, kept)
    trace = trace_of(name, records, time_zone=zone_text(zone), rejected=rejected, skipped_lines=len(dropped))
    trace = replace(trace, notes=(*trace.notes, *swf.size_note(trace.jobs)))
    # Submit times are Unix times in most logs of the archive; in the others they count from the first job.
    return trace if (trace.jobs.submit_s >= swf.JANUARY_1990_S).all() else replace(trace, unix_start_s=None)


def _read(text: LongText) -> tuple[ColumnStore, dict[int, Codes]] | None:
    """Return the columns of all jobs and the codes of their names; None if a line is malformed."""
    store, codes = ColumnStore(), {field: Codes(UNKNOWN) for field in NAMED}
    name = pa.dictionary(pa.int32(), pa.binary())
    types = dict.fromkeys(swf.DEMAND, pa.float64()) | dict.fromkeys(NAMED, name)
    for block in text.blocks(BLOCK_BYTES):
        body = swf_lines.split_lines(COMMENT_LINE.sub(b"", block) if b"#" in block else block).body
        if not body:
            continue
        table = swf_lines.read_table(body, COLUMNS, types)
        if table is None:
            return None
        values = {number: table.column(str(number)).to_numpy() for number in swf.DEMAND}
        if not swf_lines.are_usable(values):
            return None
        numbers = {field: np.rint(column).astype(np.int64) for field, column in values.items()}
        requested, used = numbers[swf.REQUESTED_PROCESSORS], numbers[swf.USED_PROCESSORS]
        processors = np.where(requested > 0, requested, used)
        logged = swf.logged_size(requested, used)
        submit_s, wait_s = numbers[swf_lines.SUBMIT], numbers[swf.WAIT]
        store.append(
            {
                "job_id": numbers[swf.JOB],
                "queued_s": submit_s,
                "start_s": np.where(wait_s >= 0, submit_s + wait_s, -1),
                "runtime_s": numbers[swf.RUN],
                "estimate_s": numbers[swf.REQUESTED_TIME],
                "processors": processors,
                "logged_processors": processors if logged is None else logged,
                **{str(number): codes[number].of(table.column(str(number))) for number in NAMED},
            }
        )
    return store, codes


def _malformed_lines(text: LongText) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    for number, line in enumerate(text.lines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith((b"#", b";")):
            continue
        if len(fields) != COLUMNS:
            yield number, f"{len(fields)} fields where {COLUMNS} are expected"
        elif fault := swf_lines.number_fault(fields, swf.DEMAND, swf.DEMAND):
            yield number, fault


def _records(columns: ColumnStore, codes: dict[int, Codes], kept: Int64) -> Records:
    """Return the jobs that are kept as records; the columns are given up."""

    def column(name: str) -> Int64:
        whole = columns.pop(name)
        return whole if len(kept) == len(whole) else whole[kept]

    def coded(field: int) -> CodedNames:
        return codes[field].coded(column(str(field)))

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
