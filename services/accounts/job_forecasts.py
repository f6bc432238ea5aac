"""Forecasts of jobs that learn from their outcomes: the power per node, and the run time.

Power is what the site declares, else what similar jobs drew, else what such nodes draw. Run time is the mean of the
user's last two jobs, never more than the limit. The forecasts are saved in files over a restart, and stay within a
bound. Each forecast is compared with its outcome before the outcome is learned, which gives its error.
"""

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, CannotWrite
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from plugin.scheduler.job import Job
from predictors.job_power import KINDS, JobPowerHistory
from predictors.model_file import ModelOrigin, load_model, save_model
from predictors.port import Prediction, Predictor
from predictors.run_times.last_two import LastTwo
from predictors.submitted_jobs import jobs_at_submission, stable_code
from services.accounts.ended_jobs import EndedJob
from services.accounts.job_draws import ASSUMED, DeclaredDraw, JobDraw, NodeKind, draw_by_class, find_declared_draw
from services.accounts.job_use import BookedJob

UNLIMITED_S = 30 * DAY_S
"""The limit assumed for a job without one."""
UNKNOWN_S = -1
MOST_TEXTS = 1 << 16
"""The most texts whose codes are cached: in each cycle most jobs are those of the last one."""
_NUMBERS = re.compile(r"\d+")


def job_columns(jobs: Sequence[Job], node_power_w: Float64 | None = None) -> Jobs:
    """Return the jobs in the order given; `node_power_w` [W per node] is what they drew, NaN and None for not known.

    Users, accounts, partitions and names are codes of their text, the same after every start. Numbers in a name
    do not count: a series sim_001, sim_002 is one program. The run time is that of jobs that have ended, else -1.
    """
    users, groups, queues, applications = (
        _coded(texts)
        for texts in (
            [job.user for job in jobs],
            [job.account for job in jobs],
            [job.partitions[0] if job.partitions else "" for job in jobs],
            [_series(job.name) for job in jobs],
        )
    )
    return Jobs(
        job_id=_coded([f"{job.job_id} {job.submit_s}" for job in jobs]),
        submit_s=_whole([job.submit_s for job in jobs]),
        runtime_s=_whole([_runtime_s(job) for job in jobs]),
        estimate_s=_whole([job.limit_s or UNLIMITED_S for job in jobs]),
        size=_whole([max(1, job.nodes) for job in jobs]),
        user=users,
        group=groups,
        queue=queues,
        application=applications,
        logged_start_s=_whole([UNKNOWN_S for _ in jobs]),
        node_power_w=np.full(len(jobs), np.nan) if node_power_w is None else node_power_w,
    )


def _runtime_s(job: Job) -> int:
    has_ended = job.start_s is not None and job.end_s is not None and job.end_s >= job.start_s
    return (job.end_s or 0) - (job.start_s or 0) if has_ended else UNKNOWN_S


def _whole(values: list[int]) -> Int64:
    return np.array(values, np.int64)


def _coded(texts: list[str]) -> Int64:
    return np.array([_code(text) for text in texts], np.int64)


@lru_cache(maxsize=MOST_TEXTS)
def _series(name: str) -> str:
    return _NUMBERS.sub("#", name)


_code = lru_cache(maxsize=MOST_TEXTS)(stable_code)

SAVE_PREDICTOR_EVERY_S = 900.0
MOST_PREDICTOR_BYTES = 64_000_000
"""The largest saved predictor, for some hundred thousand kinds of jobs; a larger one starts again."""

NOTHING_LEARNED = ModelOrigin(0, 0, 0, math.nan)
"""The error of a predictor is not saved with it."""


class SavedPredictor:
    """A predictor that is saved in the file at `path`, if it is given; `problem` says why the file cannot be used."""

    def __init__(self, make: Callable[[], Predictor[Jobs, Jobs]], path: Path | None) -> None:
        self.problem = ""
        self._make, self._path, self._kept_s = make, path, time.monotonic()
        self._predictor, self._origin = make(), NOTHING_LEARNED
        if path is not None and path.exists():
            self._take_over(path)

    def learn(self, ended: Jobs, at_s: int) -> None:
        """Learn jobs that ended, in their order; a time before that of the last one counts as the latter.

        Once in a quarter-hour the file is written too: call it in a thread.
        """
        at_s = max(at_s, self._origin.last_s)
        self._predictor.learn(ended, at_s)
        first_s = self._origin.first_s or at_s
        self._origin = replace(self._origin, outcomes=self._origin.outcomes + len(ended), first_s=first_s, last_s=at_s)

        if time.monotonic() - self._kept_s >= SAVE_PREDICTOR_EVERY_S:
            self._try_to_keep()

    def predict(self, jobs: Jobs, at_s: int) -> Prediction:
        """Return the forecasts of jobs that have not ended."""
        return self._predictor.predict(jobs, max(at_s, self._origin.last_s))

    def keep(self) -> None:
        """Save the predictor on the disk: call it in a thread. Raises CannotWrite if that fails."""
        if sum(array.nbytes for array in self._predictor.state().values()) > MOST_PREDICTOR_BYTES:
            self._begin()
        self._kept_s = time.monotonic()
        if self._path is not None:
            save_model(self._path, self._predictor, self._origin)
            self.problem = ""

    def _try_to_keep(self) -> None:
        try:
            self.keep()
        except CannotWrite as problem:
            self.problem = f"{problem}; {problem.hint}"

    def _begin(self) -> None:
        self._predictor, self._origin = self._make(), NOTHING_LEARNED

    def _take_over(self, path: Path) -> None:
        try:
            self._origin = load_model(path, self._predictor)
        except BadInput as problem:
            self.problem = f"{problem}; the forecast starts again"
            self._begin()


LATEST_ERRORS = 200
"""The number of outcomes that count; older ones belong to another time."""


class ForecastErrors:
    """Keeps the errors of the latest outcomes."""

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=LATEST_ERRORS)

    def add(self, errors: Iterable[float]) -> None:
        """Add errors, of either sign."""
        self._errors.extend(abs(error) for error in errors)

    @property
    def outcomes(self) -> int:
        """The number of outcomes."""
        return len(self._errors)

    @property
    def mae(self) -> float | None:
        """The mean absolute error, in the unit of the forecasts; None before the first outcome."""
        return sum(self._errors) / len(self._errors) if self._errors else None


RUN_TIMES_FILE = "run_times.npz"
"""In the state folder."""


class RunTimes:
    """Learns the run time of jobs; `error` [s] is that of its forecasts. Not for two threads at once."""

    def __init__(self, *, path: Path | None = None) -> None:
        self._last_two = SavedPredictor(LastTwo, path)
        self.error = ForecastErrors()

    @property
    def problem(self) -> str:
        """Why the saved forecasts cannot be used, "" if they can."""
        return self._last_two.problem

    def learn(self, ended: Sequence[EndedJob], *, at_s: int) -> None:
        """Learn jobs that have ended, in the order of their ends, except jobs whose end was not seen."""
        seen = sorted((ended_job.job for ended_job in ended if not ended_job.unseen), key=lambda job: job.end_s or 0)
        if seen:
            jobs = job_columns(seen)
            predicted = self._last_two.predict(jobs_at_submission(jobs), at_s)
            self.error.add((predicted.mean - jobs.runtime_s).tolist())
            self._last_two.learn(jobs, at_s)

    def of(self, jobs: Sequence[Job], *, at_s: int) -> dict[str, int]:
        """Return the run time of each job [s] by its number, 1 s at the least."""
        if not jobs:
            return {}
        predicted = self._last_two.predict(jobs_at_submission(job_columns(jobs)), at_s)
        return {job.job_id: max(1, round(mean_s)) for job, mean_s in zip(jobs, predicted.mean.tolist(), strict=True)}

    def keep(self) -> None:
        """Save the forecasts for the next start: call it in a thread. Raises CannotWrite."""
        self._last_two.keep()


JOB_POWER_FILE = "job_power.npz"
"""In the state folder."""
LEARNED_BASES = frozenset(kind.basis for kind in KINDS)


class JobPowers:
    """Learns the power of measured jobs; `error` [W per node] is that of its forecasts. Not for two threads at once."""

    def __init__(self, declared: Sequence[DeclaredDraw] = (), *, path: Path | None = None) -> None:
        self._declared = tuple(declared)
        self._history = SavedPredictor(lambda: JobPowerHistory(ASSUMED.node_w), path)
        self.error = ForecastErrors()

    @property
    def problem(self) -> str:
        """Why the saved forecasts cannot be used, "" if they can."""
        return self._history.problem

    def learn(self, booked: Sequence[BookedJob], *, at_s: int) -> None:
        """Learn jobs that have ended and were measured."""
        measured = [(ended_job.ended.job, ended_job.node_w) for ended_job in booked if ended_job.node_w is not None]
        if measured:
            jobs, node_w = zip(*measured, strict=True)
            outcome = job_columns(jobs, np.array(node_w, np.float64))
            predicted = self._history.predict(jobs_at_submission(outcome), at_s)
            self.error.add((predicted.mean - outcome.node_power_w).tolist())
            self._history.learn(outcome, at_s)

    def of(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], *, at_s: int) -> dict[str, JobDraw]:
        """Return the power of each job by its number; `kinds` are the nodes of each partition."""
        declared = {job.job_id: draw for job in jobs if (draw := find_declared_draw(job, self._declared)) is not None}
        return declared | self._learned([job for job in jobs if job.job_id not in declared], kinds, at_s)

    def keep(self) -> None:
        """Save the forecasts for the next start: call it in a thread. Raises CannotWrite."""
        self._history.keep()

    def _learned(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], at_s: int) -> dict[str, JobDraw]:
        if not jobs:
            return {}
        predicted = self._history.predict(jobs_at_submission(job_columns(jobs)), at_s)
        rows = zip(jobs, predicted.mean.tolist(), predicted.basis, strict=True)
        return {
            job.job_id: JobDraw(node_w, basis) if basis in LEARNED_BASES else draw_by_class(job, kinds)
            for job, node_w, basis in rows
        }
