"""Reads a job log in the Grid Workload Format of the Grid Workloads Archive (29 fields per line), column-wise."""

import re
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadTrace
from offpeak.jobs import Int64, Rejected, Trace
from offpeak.zones import zone_text
from sim_backend.traces.gwf.lines import COLUMNS, GwfColumns, job_lines, malformed_lines, parse_columns
from sim_backend.traces.records import Coded, Records, trace_of
from sim_backend.traces.swf.jobs import (
    APPLICATION,
    GROUP,
    JOB,
    QUEUE,
    REQUESTED_PROCESSORS,
    REQUESTED_TIME,
    RUN,
    USED_PROCESSORS,
    USER,
    WAIT,
    logged_size,
    size_note,
)
from sim_backend.traces.swf.lines import SUBMIT
from sim_backend.traces.swf.malformed import NUMBER, without_lines
from sim_backend.traces.swf.read import JANUARY_1990_S

EXPECTED = f"a log has one line of {COLUMNS} fields for each job"
FIELD_LIST = re.compile(rb"^[ \t]*#.*\bSubmitTime\b", re.MULTILINE)

Numbers = dict[int, Int64]


@dataclass(frozen=True)
class _Parsed:
    columns: GwfColumns
    skipped_lines: int


def looks_like_gwf(head: bytes) -> bool:
    """Say whether a file that begins so is such a log: by its first job line, or by the field list in the comments."""
    lines = (line.split() for line in head.splitlines())
    first = next((fields for fields in lines if fields and not fields[0].startswith((b"#", b";"))), [])
    if len(first) == COLUMNS and all(map(NUMBER.fullmatch, first[:USED_PROCESSORS])):
        return True
    return FIELD_LIST.search(head) is not None


def gwf_trace(text: bytes, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that `text` is; `name` is where it comes from.

    As in the Standard Workload Format, processors asked for count in replays, those used in what happened; where one of
    them is not logged the other stands for it. Times are rounded to seconds. A malformed line raises BadTrace with its
    number; `lenient` skips and counts such lines instead.
    """
    parsed = _parsed(text, name, lenient)
    numbers = {field: np.rint(values).astype(np.int64) for field, values in parsed.columns.numbers.items()}
    unknown, empty = numbers[RUN] < 0, _processors(numbers) <= 0
    trace = trace_of(
        name,
        _records(numbers, parsed.columns.names, ~(unknown | empty)),
        time_zone=zone_text(zone),
        rejected=(
            *_rejected("run time unknown (-1)", numbers[JOB][unknown]),
            *_rejected("no processors", numbers[JOB][empty & ~unknown]),
        ),
        skipped_lines=parsed.skipped_lines,
    )
    trace = replace(trace, notes=(*trace.notes, *size_note(trace.jobs)))
    # Submit times are Unix times in most logs of the archive; in the others they count from the first job.
    return trace if (trace.jobs.submit_s >= JANUARY_1990_S).all() else replace(trace, unix_start_s=None)


def _parsed(text: bytes, name: str, lenient: bool) -> _Parsed:
    body = job_lines(text)
    if not body:
        raise BadTrace(f"{name}: {'has no job lines' if text else 'is empty'}", hint=EXPECTED)
    columns = parse_columns(body)
    if columns is not None:
        return _Parsed(columns, skipped_lines=0)
    dropped = set()
    for number, fault in malformed_lines(text):
        if not lenient:
            raise BadTrace(f"{name}:{number}: {fault}", hint="--lenient skips such lines and counts them")
        dropped.add(number)
    columns = parse_columns(job_lines(without_lines(text, frozenset(dropped))))
    if columns is None:
        raise BadTrace(f"{name}: no job line can be read, {len(dropped):,} are malformed", hint=EXPECTED)
    return _Parsed(columns, skipped_lines=len(dropped))


def _records(numbers: Numbers, names: dict[int, Coded], kept: NDArray[np.bool_]) -> Records:
    numbers = {field: values[kept] for field, values in numbers.items()}
    names = {field: replace(column, code=column.code[kept]) for field, column in names.items()}
    none = np.zeros_like(numbers[JOB])
    return Records(
        job_id=numbers[JOB],
        queued_s=numbers[SUBMIT],
        start_s=np.where(numbers[WAIT] >= 0, numbers[SUBMIT] + numbers[WAIT], -1),
        runtime_s=numbers[RUN],
        estimate_s=numbers[REQUESTED_TIME],
        nodes=none,
        processors=_processors(numbers),
        user=names[USER],
        group=names[GROUP],
        queue=names[QUEUE],
        application=names[APPLICATION],
        energy_j=np.full(len(none), np.nan),
        job_names={},
        logged_processors=logged_size(numbers[REQUESTED_PROCESSORS], numbers[USED_PROCESSORS]),
    )


def _processors(numbers: Numbers) -> Int64:
    requested = numbers[REQUESTED_PROCESSORS]
    return np.where(requested > 0, requested, numbers[USED_PROCESSORS])


def _rejected(reason: str, job_ids: Int64) -> tuple[Rejected, ...]:
    return (Rejected(reason, tuple(job_ids.tolist())),) if len(job_ids) else ()
