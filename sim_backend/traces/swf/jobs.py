"""What the fields of a Standard Workload Format log mean: from parsed columns to jobs."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs, RejectedJobs
from offpeak.model.units import HIGHEST_NODE_W
from offpeak.text import counted
from sim_backend.traces.column_store import ColumnStore
from sim_backend.traces.swf.lines import SUBMIT, Columns

JOB, WAIT, RUN, USED_PROCESSORS, REQUESTED_PROCESSORS, REQUESTED_TIME = 1, 3, 4, 5, 8, 9
USER, GROUP, APPLICATION, QUEUE = 12, 13, 14, 15
DEMAND = (JOB, SUBMIT, WAIT, RUN, USED_PROCESSORS, REQUESTED_PROCESSORS, REQUESTED_TIME)
USED_FIELDS = (*DEMAND, USER, GROUP, APPLICATION, QUEUE)


@dataclass(frozen=True)
class LoggedJobs:
    """The jobs that can run, sorted by submit time, those that cannot, who asked for no time, and what was assumed."""

    jobs: Jobs
    rejected: tuple[RejectedJobs, ...]
    without_estimate: Int64
    notes: tuple[str, ...]


class LoggedColumns:
    """The jobs of a log as they are read, block by block."""

    def __init__(self) -> None:
        self.store = ColumnStore()
        self.fractions = 0
        self.absurd_readings = 0

    def add(self, columns: Columns, power_column: int | None) -> None:
        """Interpret the used fields (and the power column, if any) of a block, each float64[n] in file order."""
        block = _every_job(columns, power_column)
        values = {column.name: getattr(block, column.name) for column in fields(Jobs)}
        self.store.append(values | {"logged_size": block.as_logged().size})
        self.fractions += _fractions(columns)
        if power_column:
            self.absurd_readings += int(np.count_nonzero(columns[power_column] > HIGHEST_NODE_W))


def logged_jobs(columns: LoggedColumns) -> LoggedJobs:
    """Return the jobs of a whole log, whose columns are given up one by one."""
    store = columns.store
    job_id, runtime_s, size = store.pop("job_id"), store.pop("runtime_s"), store.pop("size")
    unknown, empty = runtime_s < 0, size <= 0
    rejected = (
        *_rejected("run time unknown (-1)", job_id[unknown]),
        *_rejected("no processors", job_id[empty & ~unknown]),
    )
    submit_s = store.pop("submit_s")
    order = _in_submit_order(submit_s, ~(unknown | empty))
    del unknown, empty
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
    for name in (column.name for column in fields(Jobs) if column.name not in (*joined, "logged_size")):
        joined[name] = _in_order(store.pop(name), order)
    jobs = Jobs(**joined, logged_size=logged_size)
    guessed = jobs.estimate_s <= 0
    jobs.estimate_s[guessed] = jobs.runtime_s[guessed]
    without_estimate = jobs.job_id[guessed]
    notes = (
        *size_note(jobs),
        *_reading_note(columns.absurd_readings),
        *_fraction_note(columns.fractions),
        *_estimate_note(len(without_estimate)),
    )
    return LoggedJobs(jobs, rejected, without_estimate, notes)


def _every_job(columns: Columns, power_column: int | None) -> Jobs:
    requested, used = columns[REQUESTED_PROCESSORS], columns[USED_PROCESSORS]
    return Jobs(
        job_id=_whole(columns[JOB]),
        submit_s=_whole(columns[SUBMIT]),
        runtime_s=_whole(columns[RUN]),
        estimate_s=_whole(columns[REQUESTED_TIME]),
        size=_whole(np.where(requested > 0, requested, used)),
        logged_size=logged_size(columns[REQUESTED_PROCESSORS], columns[USED_PROCESSORS]),
        user=np.maximum(_whole(columns[USER]), -1),
        group=np.maximum(_whole(columns[GROUP]), -1),
        queue=np.maximum(_whole(columns[QUEUE]), -1),
        application=np.maximum(_whole(columns[APPLICATION]), -1),
        logged_start_s=_whole(np.where(columns[WAIT] >= 0, columns[SUBMIT] + columns[WAIT], -1)),
        node_power_w=_readings(columns[power_column]) if power_column else np.full(len(used), np.nan),
    )


def logged_size(requested: Float64 | Int64, used: Float64 | Int64) -> Int64 | None:
    """Return the processors that jobs had where some had others than they asked for; None if none had."""
    differ = (requested > 0) & (used > 0) & (requested != used)
    return _whole(np.where(used > 0, used, requested)) if differ.any() else None


def size_note(jobs: Jobs) -> tuple[str, ...]:
    """Say which processors count where jobs used others than they asked for."""
    other = int(np.count_nonzero(jobs.as_logged().size != jobs.size))
    if not other:
        return ()
    return (
        f"{counted(other, 'job')} used more or fewer processors than asked: what happened is counted with those used,"
        " replays hold those requested",
    )


def _whole(values: Float64 | Int64) -> Int64:
    return np.rint(values).astype(np.int64)


def _readings(power_w: Float64) -> Float64:
    return np.where((power_w > 0) & (power_w <= HIGHEST_NODE_W), power_w, np.nan)


def _reading_note(absurd: int) -> tuple[str, ...]:
    return (f"{counted(absurd, 'job')} with an absurd power reading: taken as not measured",) if absurd else ()


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


def _rejected(reason: str, job_ids: Int64) -> tuple[RejectedJobs, ...]:
    return (RejectedJobs(reason, tuple(job_ids.tolist())),) if len(job_ids) else ()


def _fractions(columns: Columns) -> int:
    times = (columns[field] for field in (SUBMIT, RUN, REQUESTED_TIME))
    return sum(int(np.count_nonzero(values != np.rint(values))) for values in times)


def _fraction_note(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"times with a fraction of a second: {count:,}, rounded to whole seconds",)


def _estimate_note(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{counted(count, 'job')} without an estimate: the run time is used",)
