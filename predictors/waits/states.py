"""The state that jobs are submitted into, as rows of features: of a live snapshot, and of each job of a log.

In a log, a job's state includes the decisions before its second; of its own second it includes the earlier submissions
and the ends, but no starts.

The first eight features are those of Murali and Vadhiyar, "Qespera", CCPE 28(9), 2016, as listed in their
"Metascheduling of HPC jobs in day-ahead electricity markets", section 3.1. The others measure missing room.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S, WEEK_S
from offpeak.model.jobs import Jobs
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active
from offpeak.predictors.waits.questions import NO_JOB, WaitQuestions

FEATURES = (
    *("size", "estimate_s", "queued_units", "queued_estimate_s", "queued_waited_s", "used_units"),
    *("running_since_s", "running_estimate_s", "queued_jobs", "queued_work_s", "queued_work_narrower_s"),
    *("queued_work_shorter_s", "queued_within_hour", "longest_waited_s", "running_work_s", "missing_units"),
    *("room_after_s", "second_of_day", "second_of_week"),
)
"""Work is unit-seconds by estimates, divided by the machine's units: seconds of the whole machine."""

PUBLISHED = 8


class JobColumns(NamedTuple):
    """Jobs as columns of one length; a job that has not started has no start and no end."""

    size: Int64
    submit_s: Int64
    estimate_s: Int64
    start_s: Int64
    expected_end_s: Int64


class SubmittedJob(NamedTuple):
    """A job that is submitted at `now_s` to a machine with so many usable units."""

    now_s: int
    units: int
    size: int
    estimate_s: int


@kernel
def write_row(row: Float64, submitted: SubmittedJob, jobs: JobColumns, running: Int64, queued: Int64) -> None:
    """Write the features of a job. `running` are indices of `jobs` by expected end, `queued` others."""
    row[0] = submitted.size
    row[1] = submitted.estimate_s
    _write_queue(row, submitted, jobs, queued)
    _write_running(row, submitted, jobs, running)
    row[16] = _room_after_s(submitted, jobs, running)
    row[17] = submitted.now_s % DAY_S
    row[18] = submitted.now_s % WEEK_S


@kernel
def _write_queue(row: Float64, submitted: SubmittedJob, jobs: JobColumns, queued: Int64) -> None:
    row[8] = len(queued)
    for job in queued:
        waited_s = submitted.now_s - jobs.submit_s[job]
        work_s = jobs.size[job] * jobs.estimate_s[job] / submitted.units
        row[2] += jobs.size[job]
        row[3] += jobs.estimate_s[job]
        row[4] += waited_s
        row[9] += work_s
        row[10] += work_s if jobs.size[job] <= submitted.size else 0.0
        row[11] += work_s if jobs.estimate_s[job] <= submitted.estimate_s else 0.0
        row[12] += waited_s < HOUR_S
        row[13] = max(row[13], waited_s)


@kernel
def _write_running(row: Float64, submitted: SubmittedJob, jobs: JobColumns, running: Int64) -> None:
    for job in running:
        row[5] += jobs.size[job]
        row[6] += submitted.now_s - jobs.start_s[job]
        row[7] += jobs.expected_end_s[job] - jobs.start_s[job]
        row[14] += jobs.size[job] * max(jobs.expected_end_s[job] - submitted.now_s, 0) / submitted.units
    row[15] = row[5] + submitted.size - submitted.units


@kernel
def _room_after_s(submitted: SubmittedJob, jobs: JobColumns, running: Int64) -> float:
    """Return the seconds until the job would fit with only the running jobs; at least a second if not now."""
    missing = submitted.size - submitted.units
    for job in running:
        missing += jobs.size[job]
    if missing <= 0:
        return 0.0
    for job in running:
        missing -= jobs.size[job]
        if missing <= 0:
            return float(max(jobs.expected_end_s[job] - submitted.now_s, 1))
    return float(WEEK_S)


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
        present = self._present(job, now_s)
        runs = np.flatnonzero((self.start_s[present] < now_s) & (self.end_s[present] > now_s)) + present.start
        runs = runs[np.argsort(self.start_s[runs], kind="stable")]
        jobs, start_s = self.jobs, self.start_s[runs]
        expected_end_s = start_s + self.expected_s[runs]
        expected_end_s = np.where(expected_end_s > now_s, expected_end_s, start_s + jobs.estimate_s[runs])
        running, queued = (
            RunningJobs(jobs.size[runs], jobs.submit_s[runs], start_s, expected_end_s),
            self._queued(job, now_s),
        )
        units = max(self.units, int(running.size.sum()))
        return Snapshot(now_s, units, *all_active(1, now_s=now_s), NO_WAKING_S, running, queued)

    def _present(self, job: int, now_s: int) -> slice:
        return slice(int(np.searchsorted(self._all_ended_by_s[:job], now_s - 1, side="right")), job)

    def _queued(self, job: int, now_s: int) -> QueuedJobs:
        present = self._present(job, now_s)
        waits = np.flatnonzero(self.start_s[present] >= now_s) + present.start
        return QueuedJobs(self.jobs.size[waits], self.jobs.submit_s[waits], self.expected_s[waits])
