"""Every predictor keeps the laws; a new one needs a line in SUBJECTS."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import LAWS, Subject
from random_jobs import alike, populations

from offpeak.predictors.job_power import POWER_PREDICTORS, JobPowerQuantity, chosen_power
from offpeak.predictors.run_times import RUN_TIME_PREDICTORS, RunTimeQuantity, chosen_run_time
from offpeak.predictors.scores import power_exam, run_time_exam
from offpeak.predictors.trees.boosted import BoostedTrees
from offpeak.predictors.trees.forest import Growth, GrowthSchedule

jobs = st.one_of(populations, alike)
run_times = jobs.map(lambda all_jobs: run_time_exam(all_jobs, all_jobs.logged_start_s))
powers = jobs.map(lambda all_jobs: power_exam(all_jobs, all_jobs.logged_start_s))
SOON = {"growth": Growth(trees=3, leaves=4, least_rows=2), "schedule": GrowthSchedule(least=8)}

SUBJECTS = (
    *(Subject(f"run time: {make().name}", make, run_times) for make in RUN_TIME_PREDICTORS),
    Subject("run time: chosen", chosen_run_time, run_times),
    Subject("run time: boosted soon", lambda: BoostedTrees("soon", RunTimeQuantity(), **SOON), run_times),
    *(Subject(f"power: {make(200).name}", lambda make=make: make(200), powers) for make in POWER_PREDICTORS),
    Subject("power: chosen", lambda: chosen_power(200), powers),
    Subject("power: boosted soon", lambda: BoostedTrees("soon", JobPowerQuantity(200), **SOON), powers),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_law(subject, law):
    @given(subject.exams)
    def holds(exam):
        law(subject, exam)

    holds()
