"""The what-if as a predictor says what the function that was handed in says of each job's own state."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from logged_waits import UNITS, logged_jobs

from offpeak.predictors.scores import wait_exam
from offpeak.predictors.waits.registry import PlannedWaits


def made_up_s(snapshot, size, estimate_s):
    return 1000.0 * len(snapshot.queued.size) + 100 * len(snapshot.running.size) + size + estimate_s


@given(logged_jobs())
def test_each_job_is_planned_in_its_own_state(log):
    exam = wait_exam(log.jobs, log.start_s, log.end_s, units=UNITS)
    predicted_s = PlannedWaits(made_up_s).predict(exam.questions, 0).quantiles[:, 1]
    jobs = zip(log.jobs.size.tolist(), log.jobs.estimate_s.tolist(), exam.questions.states, strict=True)
    assert predicted_s.tolist() == [made_up_s(state, size, estimate_s) for size, estimate_s, state in jobs]
    some = exam.questions.take(np.arange(len(log.jobs))[::-2])
    assert PlannedWaits(made_up_s).predict(some, 0).quantiles[:, 1].tolist() == predicted_s[::-2].tolist()


@given(logged_jobs())
def test_a_state_that_several_jobs_share_is_planned_once(log):
    questions = wait_exam(log.jobs, log.start_s, log.end_s, units=UNITS).questions
    shared = replace(questions, state=np.arange(len(questions)) // 3)
    planned = []

    def noted_s(snapshot, size, estimate_s):
        planned.append(snapshot.now_s)
        return made_up_s(snapshot, size, estimate_s)

    together = PlannedWaits(noted_s).predict(shared, 0)
    alone = [PlannedWaits(made_up_s).predict(shared.take(np.array([row])), 0) for row in range(len(shared))]
    assert len(planned) == -(-len(shared) // 3)
    assert together.mean.tolist() == [answer.mean.item() for answer in alone]
