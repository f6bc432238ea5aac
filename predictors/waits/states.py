"""The state that jobs are submitted into, as rows of features: of a live snapshot, and of each job of a log.

In a log, a job's state includes the decisions before its second; of its own second it includes the earlier submissions
and the ends, but no starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from predictors.waits.questions import NO_JOB, WaitQuestions
from predictors.waits.state_row import FEATURES, JobColumns, SubmittedJob, write_row

UNKNOWN = -1


def snapshot_features(snapshot: Snapshot, size: Int64, estimate_s: Int64) -> Float64:
    """Return float64[n, len(FEATURES)]: one row for each of n jobs, each submitted alone after those in the queue."""
    running, queued = snapshot.running, snapshot.queued
    unknown_s = np.zeros(len(queued.size), dtype=np.int64)
    jobs = JobColumns(
        np.concatenate([running.size, queued.size]),
        np.concatenate([running.submit_s, queued.submit_s]),
        np.concatenate([running.expected_end_s - running.start_s, queued.estimate_s]),
        np.concatenate([running.start_s, unknown_s]),
        np.concatenate([running.expected_end_s, unknown_s]),
    )
    by_end = np.argsort(running.expected_end_s, kind="stable")
    waiting = np.arange(len(by_end), len(jobs.size))
    return _snapshot_rows((jobs, by_end, waiting), snapshot.now_s, max(snapshot.usable_units, 1), size, estimate_s)


@kernel
def _snapshot_rows(
    known: tuple[JobColumns, Int64, Int64], now_s: int, units: int, size: Int64, estimate_s: Int64
) -> Float64:
    jobs, running, queued = known
    rows = np.zeros((len(size), len(FEATURES)))
    for number in range(len(size)):
        submitted = SubmittedJob(now_s, units, size[number], estimate_s[number])
        write_row(rows[number], submitted, jobs, running, queued)
    return rows


def if_submitted_now(
    snapshot: Snapshot, *, size: int, estimate_s: int, user: int = UNKNOWN, queue: int = UNKNOWN
) -> WaitQuestions:
    """Return the question of the wait of a hypothetical job that is submitted into the snapshot."""
    rows = snapshot_features(snapshot, np.array([size]), np.array([estimate_s]))
    return WaitQuestions(np.array([NO_JOB]), np.array([user]), np.array([queue]), rows, np.array([0]), (snapshot,))


class LogTimes(NamedTuple):
    """Jobs by when they leave the queue, and by when they leave the machine; `leave_s` is by job."""

    by_start: Int64
    by_leave: Int64
    leave_s: Int64


def log_rows(jobs: Jobs, start_s: Int64, end_s: Int64, *, units: int) -> Float64:
    """Return float64[n, len(FEATURES)] of n jobs that started and ended so on a machine of `units`."""
    # A job that starts in a second counts as running in the next one, even if it has ended by then.
    leave_s = np.maximum(end_s, start_s + 1)
    times = LogTimes(np.argsort(start_s, kind="stable"), np.argsort(leave_s, kind="stable"), leave_s)
    return _fill_log_rows(
        JobColumns(jobs.size, jobs.submit_s, jobs.estimate_s, start_s, start_s + jobs.estimate_s), times, units
    )


@kernel
def _fill_log_rows(jobs: JobColumns, times: LogTimes, units: int) -> Float64:
    rows = np.zeros((len(jobs.size), len(FEATURES)))
    running, queued = np.empty_like(jobs.size), np.empty_like(jobs.size)
    held = waiting = started = left = 0
    for job in range(len(rows)):
        now_s = jobs.submit_s[job]
        while started < len(rows) and jobs.start_s[times.by_start[started]] < now_s:
            _insert(running, held, times.by_start[started], jobs.expected_end_s)
            held += 1
            started += 1
        while left < len(rows) and times.leave_s[times.by_leave[left]] <= now_s:
            held = _without(running, held, times.by_leave[left])
            left += 1
        waiting = _later_than(queued, waiting, jobs.start_s, now_s)
        # Some logs have jobs that hold more units than the machine has.
        there = max(units, jobs.size[running[:held]].sum())
        submitted = SubmittedJob(now_s, there, jobs.size[job], jobs.estimate_s[job])
        write_row(rows[job], submitted, jobs, running[:held], queued[:waiting])
        queued[waiting] = job
        waiting += 1
    return rows


@kernel
def _insert(running: Int64, held: int, job: int, expected_end_s: Int64) -> None:
    """Put a job into the first `held` of `running`, by expected end."""
    place = held
    while place > 0 and expected_end_s[running[place - 1]] > expected_end_s[job]:
        running[place] = running[place - 1]
        place -= 1
    running[place] = job


@kernel
def _without(running: Int64, held: int, job: int) -> int:
    """Take a job out of the first `held` of `running`; return how many are left."""
    place = 0
    while running[place] != job:
        place += 1
    running[place : held - 1] = running[place + 1 : held].copy()
    return held - 1


@kernel
def _later_than(queued: Int64, waiting: int, start_s: Int64, now_s: int) -> int:
    """Keep, in their order, those of the first `waiting` that start at `now_s` or later; return how many."""
    kept = 0
    for place in range(waiting):
        queued[kept] = queued[place]
        kept += start_s[queued[place]] >= now_s
    return kept


NO_WAKING_S = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class LogStates(Sequence[Snapshot]):
    """By job: the state as it was before any start of the second of its submission.

    `expected_s` int64[n] is the expected run time of each job, its estimate or a prediction; a job that has outlived
    the prediction is expected to run for its estimate. One active node has all `units`, or as many as running jobs
    hold, because in some logs jobs hold more units than exist.
    """

    jobs: Jobs
    start_s: Int64
    end_s: Int64
    expected_s: Int64
    units: int
    _all_ended_by_s: Int64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # When each job and all before it had ended: the search skips those.
        object.__setattr__(self, "_all_ended_by_s", np.maximum.accumulate(self.end_s))

    def __len__(self) -> int:
        return len(self.jobs)

    @overload
    def __getitem__(self, job: int) -> Snapshot: ...

    @overload
    def __getitem__(self, job: slice) -> Sequence[Snapshot]: ...

    def __getitem__(self, job: int | slice) -> Snapshot | Sequence[Snapshot]:
        if isinstance(job, slice):
            return [self[index] for index in range(*job.indices(len(self)))]
        return self._state(job, int(self.jobs.submit_s[job]))

    def at(self, now_s: int) -> Snapshot:
        """Return the state at a second after the last submission."""
        return self._state(len(self), now_s)

    def _state(self, job: int, now_s: int) -> Snapshot:
        running, queued = self._running(job, now_s), self._queued(job, now_s)
        units = max(self.units, int(running.size.sum()))
        return Snapshot(now_s, units, *all_active(1, now_s=now_s), NO_WAKING_S, running, queued)

    def _present(self, job: int, now_s: int) -> slice:
        return slice(int(np.searchsorted(self._all_ended_by_s[:job], now_s - 1, side="right")), job)

    def _running(self, job: int, now_s: int) -> RunningJobs:
        present = self._present(job, now_s)
        runs = np.flatnonzero((self.start_s[present] < now_s) & (self.end_s[present] > now_s)) + present.start
        runs = runs[np.argsort(self.start_s[runs], kind="stable")]
        jobs, start_s = self.jobs, self.start_s[runs]
        expected_end_s = start_s + self.expected_s[runs]
        expected_end_s = np.where(expected_end_s > now_s, expected_end_s, start_s + jobs.estimate_s[runs])
        return RunningJobs(jobs.size[runs], jobs.submit_s[runs], start_s, expected_end_s)

    def _queued(self, job: int, now_s: int) -> QueuedJobs:
        present = self._present(job, now_s)
        waits = np.flatnonzero(self.start_s[present] >= now_s) + present.start
        return QueuedJobs(self.jobs.size[waits], self.jobs.submit_s[waits], self.expected_s[waits])
