"""Lets boosted trees foresee run times while a log is replayed: what they know is what has ended by then."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs
from predictors.run_times.registry import boosted_run_time
from predictors.submitted_jobs import jobs_at_submission
from sim_backend.engine.state import NEVER, NOT_YET, State, Workload

HOUR_S = 3600


def foreseeing_steps(jobs: Jobs, workload: Workload, state: State) -> Iterator[tuple[int, int]]:
    """Yield up to which second the engine is to go on, and how many jobs have been submitted by then.

    Before each step `workload.foreseen_s` is written of the jobs that are submitted in it: those of an hour, foreseen
    from the jobs that had ended before the first of them.
    """
    ended, predictor = replace(jobs, runtime_s=workload.runtime_s), boosted_run_time()
    asked, awaited = jobs_at_submission(jobs), np.empty(0, dtype=np.int64)
    first = np.append(np.flatnonzero(np.diff(jobs.submit_s // HOUR_S, prepend=-HOUR_S)), len(jobs))
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        now_s = int(jobs.submit_s[begin])
        yield now_s - 1, begin
        over, awaited = _over(awaited, state.start_s, workload.runtime_s, now_s)
        predictor.learn(ended.take(over), now_s)
        block = np.arange(begin, end)
        median_s = predictor.predict(asked.take(block), now_s).point
        workload.foreseen_s[block] = np.rint(median_s).astype(np.int64)
        awaited = np.append(awaited, block)
    yield NEVER - 1, len(jobs)


def _over(awaited: Int64, start_s: Int64, runtime_s: Int64, now_s: int) -> tuple[Int64, Int64]:
    """Return which of the jobs have ended before now, in the order of their ends, and the others."""
    end_s = np.where(start_s[awaited] == NOT_YET, NEVER, start_s[awaited] + runtime_s[awaited])
    is_over = end_s < now_s
    return awaited[is_over][np.argsort(end_s[is_over], kind="stable")], awaited[~is_over]
