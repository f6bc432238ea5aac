"""What is said of waits is corrected by what came of it; the median stays what was said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.predictors.waits.questions import NO_JOB, WaitOutcomes, WaitQuestions, WaitSpread, wait_errors
from offpeak.predictors.waits.states import FEATURES

seconds = st.lists(st.integers(0, 10**6), min_size=1, max_size=20)


def requests(job_id):
    none = np.full(len(job_id), -1)
    return WaitQuestions(np.array(job_id), none, none, np.zeros((len(job_id), len(FEATURES))), none, ())


def around(spread, job_id, predicted_s):
    return spread.around(requests(job_id), np.array(predicted_s, dtype=float), ("why",) * len(job_id))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=40), seconds)
def test_the_median_is_what_was_reported_and_nothing_is_below_zero(came, predicted_s):
    spread = WaitSpread()
    for job_id, (message, wait_s) in enumerate(came):
        around(spread, [job_id], [message])
        spread.learn(WaitOutcomes(requests([job_id]), np.array([wait_s])))
    answer = around(spread, [NO_JOB] * len(predicted_s), predicted_s)
    assert answer.quantiles[:, 1].tolist() == predicted_s
    assert (np.diff(answer.quantiles, axis=1) >= 0).all()
    assert (answer.quantiles >= 0).all()
    assert (answer.mean >= 0).all()


def test_waits_that_are_always_twice_what_was_reported_move_the_mean_and_the_upper_quantile():
    spread, jobs = WaitSpread(), list(range(600))
    around(spread, jobs, [1140.0] * 600)
    spread.learn(WaitOutcomes(requests(jobs), np.full(600, 2340)))
    answer = around(spread, [NO_JOB], [1140.0])
    assert answer.mean == pytest.approx([2340])
    assert answer.quantiles == pytest.approx(np.array([[1140, 1140, 2340]]))


def test_prediction_for_an_unknown_job_is_not_evaluated():
    spread = WaitSpread()
    before = around(spread, [NO_JOB], [600.0])
    spread.learn(WaitOutcomes(requests([NO_JOB]), np.array([10**6])))
    assert around(spread, [NO_JOB], [600.0]).quantiles.tolist() == before.quantiles.tolist()


waits_s = st.floats(0, 1e6)


@given(st.lists(st.tuples(waits_s, waits_s), max_size=40), waits_s, st.lists(st.floats(0.01, 0.99), min_size=2))
def test_a_quantile_never_falls_with_its_level(came, predicted_s, levels):
    errors = wait_errors()
    for each in came:
        errors.add(*each)
    found = [errors.quantile(predicted_s, level) for level in sorted(levels)]
    assert found == sorted(found)


@pytest.mark.parametrize("level", [0.5, 0.75, 0.9, 0.97])
def test_the_share_of_waits_within_a_quantile_is_its_level(level):
    """Short and long waits are off by other factors, and many waits are none."""
    rng = np.random.default_rng(1)
    errors, within = wait_errors(), {False: [], True: []}
    for predicted_s in rng.choice([0.0, 300.0, 20_000.0], 6000).tolist():
        is_long = predicted_s > 1000
        wait_s = rng.poisson(0.5) * predicted_s if not is_long else predicted_s * rng.lognormal(0.4, 0.8)
        wait_s += rng.exponential(120)
        within[is_long].append(wait_s <= errors.quantile(predicted_s, level))
        errors.add(predicted_s, wait_s)
    for kind in within.values():
        assert np.mean(kind) == pytest.approx(level, abs=0.025)
