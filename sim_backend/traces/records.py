"""The common content of all schedulers' accounting logs: jobs that ran, with time, nodes and user, as columns.

The columns grow block by block while a log is read, and are then released one by one, so that the log is never held
twice. Names are codes, equal in all blocks. Requests are classes, of which a log has few: each is parsed once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs, LogNames, RejectedJobs, Trace
from offpeak.model.request import Chunk, Request
from offpeak.text import counted

WHOLE_NODES = 0.9
"""Jobs that use at least this share of the processors of their nodes count as exclusive."""
SEEN_SHARE = 0.01
"""A kind of node counts if jobs spent this share of all node time on it, or more."""
MOST = 10**9
"""A request of more copies, cores, MiB or GPUs makes no sense."""
LARGEST_KEY = 2**62
SEGMENT_ROWS = 1 << 16
NARROW = np.iinfo(np.int32)

Column = NDArray[Any]


class ColumnStore:
    """Columns of one length. Integers take four bytes if they fit, as nearly all of a log do."""

    def __init__(self) -> None:
        self._segments: dict[str, list[_Segment]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: str) -> bool:
        return name in self._segments

    def append(self, block: Mapping[str, Column]) -> None:
        """Add the same columns as before."""
        for name, values in block.items():
            segments = self._segments.setdefault(name, [])
            is_narrow = values.dtype == np.int64 and (
                not len(values) or NARROW.min <= values.min() <= values.max() <= NARROW.max
            )
            left = values.astype(np.int32) if is_narrow else values
            while len(left):
                if not segments or segments[-1].values.dtype != left.dtype or segments[-1].length == SEGMENT_ROWS:
                    segments.append(_Segment(SEGMENT_ROWS, left.dtype))
                last = segments[-1]
                fitting = left[: SEGMENT_ROWS - last.length]
                last.values[last.length : last.length + len(fitting)] = fitting
                last.length += len(fitting)
                left = left[len(fitting) :]
        self._length += len(values)

    def get(self, name: str) -> Column:
        """Return a copy of a column: int64, float64 or bool."""
        return self._joined(name, keep=True)

    def pop(self, name: str) -> Column:
        """Remove a column and release its memory."""
        return self._joined(name, keep=False)

    def release(self, *names: str) -> None:
        """Give up columns that are not needed."""
        for name in names:
            del self._segments[name]

    def _joined(self, name: str, *, keep: bool) -> Column:
        segments = self._segments[name] if keep else self._segments.pop(name)
        if not segments:
            return np.empty(0, np.int64)
        kind = np.result_type(*(segment.values.dtype for segment in segments))
        column = np.empty(self._length, dtype=np.int64 if kind == np.int32 else kind)
        row = 0
        for place, segment in enumerate(segments):
            column[row : row + segment.length] = segment.values[: segment.length]
            row += segment.length
            if not keep:
                segments[place] = _NOTHING
        return column


class _Segment:
    """Some rows of a column, in memory that the system takes back at once: a heap full of holes keeps it."""

    def __init__(self, rows: int, kind: np.dtype[Any]) -> None:
        self.values: Column = np.frombuffer(mmap(-1, rows * kind.itemsize), kind)
        self.length = 0


_NOTHING = _Segment(1, np.dtype(np.int8))


@dataclass(frozen=True)
class CodedNames:
    """A column of names: `names[code]` for each job, -1 if the log has none."""

    code: Int64
    names: tuple[str, ...]


@dataclass(frozen=True)
class Records:
    """Jobs as columns of one length in any order; times are Unix seconds, unknown ones -1.

    `queued_s` is when the job became eligible if the log says so, else its submission; `start_s` may not be before it.
    `runtime_s` is the used wall time, `estimate_s` the requested one, 0 without a request. `nodes` may be 0, or None,
    if the log counts processors only. `energy_j` is the measured energy, NaN if missing, None without any measurement.
    `job_names` holds the ids that the scheduler writes differently. `logged_processors` are the used processors, None
    if equal to `processors`, the requested ones. `request`, `array`, `partition`, `priority` and `node`, the first one
    of each job, are None if the log lacks them; `requests` are the classes of `request`, -1 if unknown.
    """

    job_id: Int64
    queued_s: Int64
    start_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    nodes: Int64 | None
    processors: Int64
    user: CodedNames
    group: CodedNames
    queue: CodedNames
    application: CodedNames
    energy_j: Float64 | None
    job_names: Mapping[int, str]
    logged_processors: Int64 | None = None
    request: Int64 | None = None
    requests: tuple[Request, ...] = ()
    array: Int64 | None = None
    partition: CodedNames | None = None
    node: CodedNames | None = None
    priority: Int64 | None = None

    def __len__(self) -> int:
        return len(self.job_id)


def trace_of(
    name: str,
    records: Records,
    *,
    time_zone: str | None,
    rejected: tuple[RejectedJobs, ...] = (),
    skipped_lines: int = 0,
    notes: tuple[str, ...] = (),
) -> Trace:
    """Return the log of these records, in nodes if jobs are exclusive, else in processors."""
    per_node = processors_per_node(records)
    units_per_node = 1 if per_node and has_whole_nodes(records, per_node) else per_node
    size = records.nodes if units_per_node == 1 and records.nodes is not None else records.processors
    unasked = records.estimate_s <= 0
    without_estimate = records.job_id[unasked]
    unit_note = {
        None: ("counted in processors: the log does not say on how many nodes the jobs ran",),
        1: (),
    }.get(units_per_node, ("jobs share nodes: use is counted in processors",))
    columns = {
        "job_id": records.job_id,
        "submit_s": records.queued_s,
        "runtime_s": records.runtime_s,
        "estimate_s": np.where(unasked, records.runtime_s, records.estimate_s),
        "size": size,
        "user": records.user.code,
        "group": records.group.code,
        "queue": records.queue.code,
        "application": records.application.code,
        "logged_start_s": records.start_s,
        "node_power_w": _draw_w(records.energy_j, records.runtime_s, size),
        "logged_size": None if units_per_node == 1 else records.logged_processors,
        "request": records.request,
        "array": records.array,
        "partition": records.partition and records.partition.code,
        "node": records.node and records.node.code,
        "priority": records.priority,
    }
    names = LogNames(
        user=records.user.names,
        group=records.group.names,
        queue=records.queue.names,
        application=records.application.names,
        partition=records.partition.names if records.partition else (),
        job=records.job_names,
        node=records.node.names if records.node else (),
    )
    requests = records.requests
    # Free the memory before the trace is sorted, which copies it.
    del records, unasked, size
    return Trace(
        name=name,
        jobs=_by_submission(columns),
        processors=None,
        nodes=None,
        unix_start_s=0,
        time_zone=time_zone,
        rejected=rejected,
        skipped_lines=skipped_lines,
        notes=(
            *unit_note,
            *note_on(len(without_estimate), "without a time limit: the run time is used"),
            *notes,
        ),
        names=names,
        units_per_node=units_per_node,
        without_estimate=without_estimate,
        processors_per_node=per_node,
        requests=requests,
    )


def processors_per_node(records: Records) -> int | None:
    """Return the most processors per node that jobs used for a notable time; None if nodes are not logged."""
    if records.nodes is None or not len(records) or (records.nodes <= 0).any():
        return None
    ratio = -(-records.processors // records.nodes)
    kinds = np.unique(ratio)
    kind = np.searchsorted(kinds, ratio)
    del ratio
    spent = np.bincount(kind, weights=records.nodes * np.maximum(records.runtime_s, 1))
    return int(kinds[spent >= SEEN_SHARE * spent.sum()].max())


def has_whole_nodes(records: Records, per_node: int) -> bool:
    """Tell whether jobs have their nodes alone: together they use nearly all processors of the nodes they are on."""
    if records.nodes is None:
        return False
    runtime_s = np.maximum(records.runtime_s, 1)
    used = float(np.dot(np.minimum(records.processors, records.nodes * per_node), runtime_s))
    return used >= WHOLE_NODES * per_node * float(np.dot(records.nodes, runtime_s))


def _by_submission(columns: dict[str, Any]) -> Jobs:
    """Return the jobs by submit time, each column sorted for itself: a copy of a long log takes much memory."""
    submit_s = columns["submit_s"]
    if not (submit_s[1:] >= submit_s[:-1]).all():
        order = np.argsort(submit_s, kind="stable")
        del submit_s
        for name in tuple(columns):
            if columns[name] is not None:
                columns[name] = columns[name][order]
    return Jobs(**columns)


def _draw_w(energy_j: Float64 | None, runtime_s: Int64, size: Int64) -> Float64:
    """Return the mean power per unit [W]; NaN if it is missing or zero, as failing sensors report."""
    if energy_j is None:
        return np.full(len(size), np.nan)
    unmeasured = ~((energy_j > 0) & (runtime_s > 0) & (size > 0))
    draw_w: Float64 = energy_j / np.maximum(runtime_s * size, 1)
    draw_w[unmeasured] = np.nan
    return draw_w


def rejected_jobs(reason: str, job_ids: Int64) -> tuple[RejectedJobs, ...]:
    """Return the jobs as rejected for the reason, () without jobs."""
    return (RejectedJobs(reason, tuple(job_ids.tolist())),) if len(job_ids) else ()


def note_on(count: int, what: str, noun: str = "job") -> tuple[str, ...]:
    """Return a note on so many jobs, () without any."""
    return (f"{counted(count, noun)} {what}",) if count else ()


class Codes:
    """Assigns a code to each name, in order of appearance, and -1 to `unknown`."""

    def __init__(self, unknown: bytes | None = None) -> None:
        self._unknown = unknown
        self._codes: dict[bytes, int] = {}

    def of_name(self, name: bytes) -> int:
        """Return the code of a name."""
        return -1 if name == self._unknown else self._codes.setdefault(name, len(self._codes))

    def of(self, column: pa.ChunkedArray) -> Int64:
        """Return the codes of a column of names, each chunk of which has a dictionary."""
        parts = [np.empty(0, np.int64)]
        for chunk in column.chunks:
            of_index = np.array([self.of_name(name) for name in chunk.dictionary.to_pylist()], np.int64)
            parts.append(of_index[chunk.indices.to_numpy()] if len(chunk) else parts[0])
        return np.concatenate(parts)

    @property
    def names(self) -> tuple[bytes, ...]:
        """The names in the order of their codes."""
        return tuple(self._codes)

    def coded(self, code: Int64) -> CodedNames:
        """Return a column of these codes with its names."""
        return CodedNames(code, tuple(name.decode(errors="replace") for name in self._codes))

    def renumbered(self, code: Int64) -> CodedNames:
        """Return a column with codes renumbered for the names that occur in it."""
        borne = np.zeros(len(self._codes) + 1, bool)
        borne[code] = True
        borne[-1] = False
        number = np.where(borne, np.cumsum(borne) - 1, -1)
        names = zip(self._codes, borne, strict=False)
        return CodedNames(number[code], tuple(name.decode(errors="replace") for name, is_borne in names if is_borne))


def request_classes(
    columns: Sequence[Int64], request_of: Callable[[tuple[int, ...]], Request | None]
) -> tuple[Int64, tuple[Request, ...]]:
    """Return the class of each row, and the requests by class; -1 if `request_of` returns None.

    `request_of` gets each distinct row once.
    """

    def makes_sense(chunk: Chunk) -> bool:
        return 1 <= chunk.copies <= MOST and max(chunk.cores, chunk.memory_mib, chunk.gpus) <= MOST

    # One number for each row, the same for equal rows.
    kind = np.zeros(len(columns[0]), np.int64)
    spread = 1
    for column in columns:
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        if spread * (high - low + 1) > LARGEST_KEY:
            kind = np.unique(kind, return_inverse=True)[1]
            spread = int(kind.max(initial=0)) + 1
        if spread * (high - low + 1) > LARGEST_KEY:
            values, column = np.unique(column, return_inverse=True)
            low, high = 0, len(values)
        kind = kind * (high - low + 1) + (column - low)
        spread *= high - low + 1
    kinds, first = np.unique(kind, return_index=True)
    numbers: dict[Request, int] = {}
    of_kind = np.full(len(kinds), -1)
    for number, row in enumerate(zip(*(column[first].tolist() for column in columns), strict=True)):
        request = request_of(row)
        if request is not None and request.chunks and all(map(makes_sense, request.chunks)):
            of_kind[number] = numbers.setdefault(request, len(numbers))
    return of_kind[np.searchsorted(kinds, kind)], tuple(numbers)
