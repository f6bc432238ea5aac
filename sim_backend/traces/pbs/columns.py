"""From the columns of an accounting log to those that all accounting logs share."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from sim_backend.traces.column_store import ColumnStore
from sim_backend.traces.pbs.log import OVER, QUEUED, RERUN, STARTED, Log
from sim_backend.traces.records import Coded, Records

LEFT_OVER = {
    "still running at the end of the log": STARTED,
    "put back in the queue and not started again": RERUN,
    "never started": QUEUED,
}


@dataclass(frozen=True)
class LeftOver:
    """The jobs that did not end, by reason; `unended` counts the starts of jobs that went back to the queue."""

    jobs: dict[str, Int64]
    unended: int


@dataclass(frozen=True)
class Runs:
    """The rows of the runs that can be replayed and their jobs, and the jobs of the other runs, by reason.

    `repeated` counts the E records that stand twice, `again` the runs of jobs that had run before.
    """

    rows: Int64
    jobs: Int64
    unusable: dict[str, Int64]
    repeated: int
    again: int


def left_over(log: Log) -> LeftOver:
    """Return the jobs whose last news is not an end, in the order of the log; `log.news` is given up."""
    news = log.news.pop("news")
    # The lines of a job stand together, those before that tell nothing of a job that has started.
    key = 2 * _jobs(log, log.news) + (news != QUEUED)
    order = np.argsort(key, kind="stable")
    key.sort()
    key //= 2
    news = news[order]
    begins_job = np.append(True, key[1:] != key[:-1])
    went_back = ~begins_job[1:] & (news[:-1] == STARTED) & (news[1:] != OVER)
    begin = np.flatnonzero(begins_job)
    job = key[begin]
    del key
    last = news[np.append(begin[1:], len(news)) - 1]
    first_row = np.minimum.reduceat(order, begin)
    del order
    jobs = {}
    for reason, state in LEFT_OVER.items():
        at = np.flatnonzero(last == state)
        jobs[reason] = job[at[np.argsort(first_row[at])]]
    return LeftOver(jobs, int(np.count_nonzero(went_back)))


def usable_runs(log: Log) -> Runs:
    """Sort out the runs; of the records of one job and start the last one counts, where the first one stands."""
    if not len(log.runs):
        none = np.empty(0, np.int64)
        return Runs(none, none, {}, 0, 0)
    job = _jobs(log, log.runs)
    start_s = log.runs.get("start_s")
    order = np.lexsort((start_s, job))
    begins_job = np.append(True, np.diff(job[order]) != 0)
    begins_run = begins_job | np.append(True, np.diff(start_s[order]) != 0)
    del start_s
    begin = np.flatnonzero(begins_run)
    rows = np.maximum.reduceat(order, begin)[np.argsort(np.minimum.reduceat(order, begin))]
    repeated = len(order) - len(rows)
    del order, begin
    is_timed = log.runs.get("runtime_s")[rows] >= 0
    is_placed = log.runs.get("processors")[rows] > 0
    usable = rows[is_timed & is_placed]
    return Runs(
        rows=usable,
        jobs=job[usable],
        unusable={"run time unknown": job[rows[~is_timed]], "no processors": job[rows[is_timed & ~is_placed]]},
        repeated=repeated,
        again=len(rows) - int(np.count_nonzero(begins_job)),
    )


def records_of(log: Log, runs: Runs, numbers: Int64, names: Mapping[int, str]) -> Records:
    """Return these runs as columns; `numbers` are theirs, `names` by number. `log.runs` is given up."""
    over_s = _over_before_s(log, runs)
    rows = runs.rows

    def column(name: str) -> Int64:
        return log.runs.pop(name)[rows]

    def coded(name: str) -> Coded:
        return log.codes.pop(name).renumbered(column(name))

    start_s = column("start_s")
    # Clocks that are set back can make a job start before it was queued.
    queued_s = np.minimum(np.maximum(column("queued_s"), over_s), start_s)
    del over_s
    return Records(
        job_id=numbers,
        queued_s=queued_s,
        start_s=start_s,
        runtime_s=column("runtime_s"),
        estimate_s=column("asked_s"),
        nodes=column("nodes"),
        processors=column("processors"),
        user=coded("user"),
        group=coded("group"),
        queue=coded("queue"),
        application=coded("application"),
        energy_j=_measured_j(column("energy_j")),
        job_names=names,
    )


def _jobs(log: Log, store: ColumnStore) -> Int64:
    """Return which job each row is of; the columns that say so are given up."""
    return log.ids.keys(store.pop("number"), store.pop("rest"))


def _over_before_s(log: Log, runs: Runs) -> Int64:
    """Return when the same job's run before each of these was over, 0 where there was none: it queues from then on."""
    order = np.argsort(runs.jobs, kind="stable")
    again = np.flatnonzero(np.diff(runs.jobs[order]) == 0)
    before, after = order[again], order[again + 1]
    del order
    over_s = np.zeros(len(runs.rows), np.int64)
    if len(again):
        row = runs.rows[before]
        over_s[after] = log.runs.get("start_s")[row] + log.runs.get("runtime_s")[row]
    return over_s


def _measured_j(energy_j: Int64) -> Float64 | None:
    return np.where(energy_j > 0, energy_j, np.nan) if energy_j.any() else None
