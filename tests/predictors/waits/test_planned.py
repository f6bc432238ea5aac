"""The what-if as a predictor says what the function that was handed in says of each job's own state."""

import numpy as np
from hypothesis import given
from logged_waits import UNITS, logged_jobs

from predictors.waits.exam import wait_exam
from predictors.waits.planned import PlannedWaits


def made_up_s(snapshot, size, estimate_s):
    return float(1000 * len(snapshot.queued.size) + 100 * len(snapshot.running.size) + size + estimate_s)


@given(logged_jobs())
def test_each_job_is_planned_in_its_own_state(log):
    exam = wait_exam(log.jobs, log.start_s, log.end_s, units=UNITS)
    said_s = PlannedWaits(made_up_s).predict(exam.questions, 0).quantiles[:, 1]
    jobs = zip(log.jobs.size.tolist(), log.jobs.estimate_s.tolist(), exam.questions.states, strict=True)
    assert said_s.tolist() == [made_up_s(state, size, estimate_s) for size, estimate_s, state in jobs]
    some = exam.questions.take(np.arange(len(log.jobs))[::-2])
    assert PlannedWaits(made_up_s).predict(some, 0).quantiles[:, 1].tolist() == said_s[::-2].tolist()
