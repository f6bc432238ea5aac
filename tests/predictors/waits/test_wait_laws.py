"""The predictors of waits keep the laws of all predictors."""

import pytest
from hypothesis import given
from laws import LAWS, Subject
from logged_waits import UNITS, logged_jobs

from offpeak.predictors.scores import wait_exam
from offpeak.predictors.trees.forest import Growth, GrowthSchedule
from offpeak.predictors.waits.registry import Arbiter, BoostedWaits, NoWaitPredictor, PlannedWaits
from offpeak.predictors.waits.similar_jobs import SimilarJobs

exams = logged_jobs().map(lambda log: wait_exam(log.jobs, log.start_s, log.end_s, units=UNITS))


def work_ahead_s(snapshot, size, estimate_s):
    """Plan that all work, the job's too, is done by the whole machine before it starts."""
    work_s = (snapshot.queued.size * snapshot.queued.estimate_s).sum() + size * estimate_s
    return work_s / snapshot.usable_units


def boosted_soon():
    return BoostedWaits(growth=Growth(trees=3, leaves=4, least_rows=2), schedule=GrowthSchedule(least=8))


SUBJECTS = (
    Subject("nobody waits", NoWaitPredictor, exams),
    Subject("similar jobs", SimilarJobs, exams),
    Subject("boosted", BoostedWaits, exams),
    Subject("boosted soon", boosted_soon, exams),
    Subject("what-if", lambda: PlannedWaits(work_ahead_s), exams),
    Subject("arbiter", lambda: Arbiter((SimilarJobs(), boosted_soon(), PlannedWaits(work_ahead_s))), exams),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_law(subject, law):
    @given(subject.exams)
    def holds(exam):
        law(subject, exam)

    holds()
