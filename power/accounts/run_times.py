"""How long each job will run: the mean of its user's last two jobs, never more than its limit."""

from collections.abc import Sequence
from pathlib import Path

from plugin.scheduler.job import Job
from power.accounts.job_columns import columns
from power.accounts.kept_predictor import KeptPredictor
from power.accounts.own_error import OwnError
from power.accounts.ran_jobs import Ended
from predictors.run_times.last_two import LastTwo
from predictors.submitted_jobs import jobs_at_submission

FILE = "run_times.npz"
"""In the state folder."""


class RunTimes:
    """Learns how long jobs ran; `error` [s] is its own. Not for two threads at once."""

    def __init__(self, *, path: Path | None = None) -> None:
        self._last_two = KeptPredictor(LastTwo, path)
        self.error = OwnError()

    @property
    def trouble(self) -> str:
        """Why what was learned before cannot be used, "" if it can."""
        return self._last_two.trouble

    def learn(self, ended: Sequence[Ended], *, at_s: int) -> None:
        """Take in jobs that have ended, the first first; of those that ended unseen nothing is learned."""
        seen = sorted((each.job for each in ended if not each.unseen), key=lambda job: job.end_s or 0)
        if seen:
            jobs = columns(seen)
            said = self._last_two.predict(jobs_at_submission(jobs), at_s)
            self.error.add((said.mean - jobs.runtime_s).tolist())
            self._last_two.learn(jobs, at_s)

    def of(self, jobs: Sequence[Job], *, at_s: int) -> dict[str, int]:
        """Return the run time of each job [s] by its number, 1 s at the least."""
        if not jobs:
            return {}
        said = self._last_two.predict(jobs_at_submission(columns(jobs)), at_s)
        return {job.job_id: max(1, round(mean_s)) for job, mean_s in zip(jobs, said.mean.tolist(), strict=True)}

    def keep(self) -> None:
        """Write what was learned, for the next start: it takes the disk's time, so in a thread. CannotWrite."""
        self._last_two.keep()
