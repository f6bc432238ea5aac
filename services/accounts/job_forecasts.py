"""Forecasts of jobs that learn from their outcomes: the power per node, and the run time.

Power is what the site declares; else what such nodes draw, or what similar jobs drew. Run time is the limit, or by the
user's last two jobs, or by similar jobs, never more than the limit. Of each the predictor is used that has had the
lowest error on the jobs of this site (offpeak.predictors.choice). The predictors and their errors are saved in files
over a restart, and stay within a bound.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, CannotWrite
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.plugin.scheduler.job import Job
from offpeak.predictors.choice import ChosenErrors, ChosenPredictor
from offpeak.predictors.job_history import jobs_at_submission, stable_code
from offpeak.predictors.job_power import chosen_power
from offpeak.predictors.port import ModelOrigin, certain, load_model, save_model
from offpeak.predictors.run_times import UNLIMITED_S, chosen_run_time
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_draws import (
    ASSUMED,
    DeclaredDraw,
    JobDraw,
    NodeKind,
    bounded_draw,
    draw_by_class,
    find_declared_draw,
    find_kind,
)
from offpeak.services.accounts.job_use import BookedJob

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
"""The errors of the candidates are part of the state of the predictor."""


class SavedPredictor:
    """A predictor that is saved in the file at `path`, if it is given; `problem` says why the file cannot be used."""

    def __init__(self, make: Callable[[], ChosenPredictor], path: Path | None) -> None:
        self.problem = ""
        self._make, self._path, self._kept_s = make, path, time.monotonic()
        self.predictor, self._origin = make(), NOTHING_LEARNED
        if path is not None and path.exists():
            try:
                self._origin = load_model(path, self.predictor)
            except BadInput as problem:
                self.problem = f"{problem}; the forecast starts again"
                self._begin()

    @property
    def errors(self) -> ChosenErrors:
        """The errors of the predictor in use and of the simplest one, in the unit of the forecasts."""
        return self.predictor.choice.errors

    def learn_columns(self, ended: Jobs, at_s: int) -> None:
        """Learn jobs that ended, in their order; a time before that of the last one counts as the latter.

        Once in a quarter-hour the file is written too: call it in a thread.
        """
        at_s = max(at_s, self._origin.last_s)
        self.predictor.learn(ended, at_s)
        first_s = self._origin.first_s or at_s
        self._origin = replace(self._origin, outcomes=self._origin.outcomes + len(ended), first_s=first_s, last_s=at_s)

        if time.monotonic() - self._kept_s >= SAVE_PREDICTOR_EVERY_S:
            try:
                self.keep()
            except CannotWrite as problem:
                self.problem = f"{problem}; {problem.hint}"

    def keep(self) -> None:
        """Save the predictor on the disk: call it in a thread. Raises CannotWrite if that fails."""
        if sum(array.nbytes for array in self.predictor.state().values()) > MOST_PREDICTOR_BYTES:
            self._begin()
        self._kept_s = time.monotonic()
        if self._path is not None:
            save_model(self._path, self.predictor, self._origin)
            self.problem = ""

    def _begin(self) -> None:
        self.predictor, self._origin = self._make(), NOTHING_LEARNED


RUN_TIMES_FILE = "run_time_predictors.npz"
"""In the state folder."""


class RunTimes(SavedPredictor):
    """Learns the run time of jobs [s], beside their time limits. Not for two threads at once."""

    def __init__(self, *, path: Path | None = None) -> None:
        super().__init__(chosen_run_time, path)

    def learn(self, ended: Sequence[EndedJob], *, at_s: int) -> None:
        """Learn jobs that have ended, in the order of their ends, except jobs whose end was not seen."""
        seen = sorted((ended_job.job for ended_job in ended if not ended_job.unseen), key=lambda job: job.end_s or 0)
        if seen:
            jobs = job_columns(seen)
            # A job that began and ended between two rounds is predicted now, before its run time is learned.
            self.predictor.predict(jobs_at_submission(jobs), at_s)
            self.learn_columns(jobs, at_s)

    def of(self, jobs: Sequence[Job], *, at_s: int) -> dict[str, int]:
        """Return the run time of each job [s] by its number, 1 s at the least."""
        if not jobs:
            return {}
        predicted = self.predictor.predict(jobs_at_submission(job_columns(jobs)), at_s)
        return {job.job_id: max(1, round(run_s)) for job, run_s in zip(jobs, predicted.point.tolist(), strict=True)}


JOB_POWER_FILE = "job_power_predictors.npz"
"""In the state folder."""


class JobPowers(SavedPredictor):
    """Learns the power of measured jobs [W per node], beside that of the node classes. Not for two threads at once.

    `errors` are those of jobs without declared power.
    """

    def __init__(self, declared: Sequence[DeclaredDraw] = (), *, path: Path | None = None) -> None:
        self._declared = tuple(declared)
        super().__init__(lambda: chosen_power(ASSUMED.node_w), path)

    def learn(self, booked: Sequence[BookedJob], *, at_s: int) -> None:
        """Learn jobs that have ended; those that were not measured teach nothing, and their forecasts are dropped."""
        if booked:
            node_w = np.array([np.nan if each.node_w is None else each.node_w for each in booked], np.float64)
            self.learn_columns(job_columns([each.ended.job for each in booked], node_w), at_s)

    def of(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], *, at_s: int) -> dict[str, JobDraw]:
        """Return the power of each job by its number; `kinds` are the nodes of each partition."""
        found = ((job.job_id, find_declared_draw(job, self._declared, kinds)) for job in jobs)
        declared = {job_id: draw for job_id, draw in found if draw is not None}
        return declared | self._predicted([job for job in jobs if job.job_id not in declared], kinds, at_s)

    def _predicted(self, jobs: Sequence[Job], kinds: Mapping[str, NodeKind], at_s: int) -> dict[str, JobDraw]:
        if not jobs:
            return {}
        by_class = [draw_by_class(job, kinds) for job in jobs]
        naive = certain(np.array([draw.node_w for draw in by_class]), "")
        naive = replace(naive, basis=tuple(draw.basis for draw in by_class))
        predicted = self.predictor.predict_beside(naive, jobs_at_submission(job_columns(jobs)), at_s)
        rows = zip(jobs, by_class, predicted.point.tolist(), predicted.basis, strict=True)
        return {
            job.job_id: bounded_draw(JobDraw(node_w, basis, naive_draw.share), find_kind(job, kinds))
            for job, naive_draw, node_w, basis in rows
        }
