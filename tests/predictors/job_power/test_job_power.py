"""Predictions of power: from the closest jobs, and from trees."""

from datetime import UTC

import numpy as np
import pytest
from random_jobs import jobs_of, user_habits

from offpeak.predictors.job_history import jobs_at_submission
from offpeak.predictors.job_power import (
    DeclaredPower,
    boosted_power,
    power_history,
    readings_w,
)
from offpeak.predictors.scores import compute_score, power_exam, take_exam
from offpeak.sim_backend.traces.read import read_log

USER, OTHER = 3, 4


def job(*, user=USER, application=1, size=4, power_w=float("nan"), queue=0):
    return (0, 60, 60, size, user, 0, queue, application, 0, power_w)


def learned(*rows):
    predictor = power_history(at_first_w=200)
    predictor.learn(jobs_of(rows), 10**6)
    return predictor


def message(predictor, row):
    given_ = predictor.predict(jobs_at_submission(jobs_of([row])), 10**6)
    return given_.mean[0], given_.basis[0]


def test_the_closest_jobs_decide():
    predictor = learned(
        job(power_w=100), job(size=8, power_w=300), job(application=2, size=2, power_w=350), job(user=OTHER, power_w=50)
    )
    assert message(predictor, job()) == (100, "jobs of the same user, name and size")
    assert message(predictor, job(size=16)) == (pytest.approx(160), "jobs of the same user and name")
    assert message(predictor, job(application=9, size=8)) == (300, "jobs of the same user and size")
    assert message(predictor, job(application=9, size=9))[1] == "jobs of the same user"
    assert message(predictor, job(user=77))[1] == "all jobs"


def test_without_a_reading_there_is_what_was_reported_at_first():
    assert message(learned(job(), job(power_w=0.0)), job()) == (200, "no job yet")


def test_impossible_power_is_no_reading():
    found = readings_w(jobs_of([job(power_w=power_w) for power_w in (0.0, -5.0, float("inf"), 250.0)]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 250.0])


@pytest.mark.parametrize("make", [power_history, boosted_power])
def test_habits_are_learned_and_four_fifths_lie_in_the_interval(make):
    jobs = user_habits(1500, 2)
    exam = power_exam(jobs, jobs.logged_start_s)
    late = exam.question_s > exam.question_s[900]
    score = compute_score(
        np.where(late, exam.actual, np.nan), take_exam(make(200), exam), naive=take_exam(DeclaredPower(200), exam)
    )
    assert score.relative_mae < 0.2
    assert score.coverage == pytest.approx(0.8, abs=0.08)


def test_readings_of_sacct_teach(repository):
    log = repository / "sim_backend" / "sample" / "sample_sacct.txt.gz"
    jobs = read_log(str(log), lenient=False, zone=UTC).jobs
    exam = power_exam(jobs, jobs.logged_start_s)
    score = compute_score(exam.actual, take_exam(power_history(200), exam), naive=take_exam(DeclaredPower(200), exam))
    assert score.count > 0
    assert score.relative_mae < 1
