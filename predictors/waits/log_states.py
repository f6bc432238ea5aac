"""The snapshots of a log that has run, each made when it is looked at: the state that each job was submitted into."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot, all_active

NO_WAKING_S = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class LogStates(Sequence[Snapshot]):
    """By job: the state as it was before any start of the second of its submission.

    `expected_s` int64[n] is how long each was expected to run: its estimate, or what was predicted; a job that has
    outlived that is expected to run for its estimate. One node that is up has all `units`, or as many as running jobs
    hold: logs are not free of jobs that hold more than there is.
    """

    jobs: Jobs
    start_s: Int64
    end_s: Int64
    expected_s: Int64
    units: int
    _all_ended_by_s: Int64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # By when each job and all before it had ended: of those that had, none need be looked at.
        object.__setattr__(self, "_all_ended_by_s", np.maximum.accumulate(self.end_s))

    def __len__(self) -> int:
        return len(self.jobs)

    @overload
    def __getitem__(self, job: int) -> Snapshot: ...

    @overload
    def __getitem__(self, job: slice) -> Sequence[Snapshot]: ...

    def __getitem__(self, job: int | slice) -> Snapshot | Sequence[Snapshot]:
        if isinstance(job, slice):
            return [self[each] for each in range(*job.indices(len(self)))]
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
