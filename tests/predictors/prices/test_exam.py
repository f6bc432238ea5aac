"""The exam about prices: asked at midnight, known at the next one, and nothing later ever changes an answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import to_local_s
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import PriceHistory, PriceSteps
from offpeak.predictors.prices.models import BLEND, LAST_WEEK
from offpeak.predictors.prices.predictor import PricePredictor
from offpeak.predictors.scores import compute_score, price_exam, take_exam

# Newfoundland's clock went back from 00:01 to 23:01 until 2011, Lord Howe's goes back by half an hour.
ZONES = ("UTC", "Europe/Brussels", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu")
NAN = float("nan")


@st.composite
def some_history(draw):
    step_s = draw(st.sampled_from([900, 1800, 3600]))
    start_s = 900 * draw(st.integers(1_400_000, 1_500_000))
    days = draw(st.floats(0, 12))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    price = random.normal(40, 30, int(days * DAY_S / step_s))
    return PriceHistory(start_s, step_s, np.where(random.random(len(price)) < 0.05, NAN, price))


@given(some_history(), st.sampled_from(ZONES), st.integers(0, 4))
def test_a_day_is_queried_at_its_midnight_and_known_at_the_next(history, name, after_days):
    zone = parse_zone(name)
    exam = price_exam(history, zone, after_days=after_days)
    assert (np.diff(exam.question_s) >= 0).all()
    assert (np.diff(exam.known_s) >= 0).all()
    start_s = exam.questions.start_s + exam.questions.step_s * np.arange(len(exam.questions))
    assert (exam.question_s <= start_s).all()
    assert (start_s < exam.question_s + DAY_S + 7200).all()
    assert (to_local_s(exam.question_s, zone) % DAY_S == 0).all()
    known = np.searchsorted(exam.known_s, exam.question_s, side="right")
    assert (history.start_s + history.step_s * (known - 1) < exam.question_s)[known > 0].all()
    np.testing.assert_array_equal(exam.actual, history.price[len(history) - len(exam.questions) :])


@given(some_history(), st.sampled_from(ZONES), st.integers(1, 11), st.integers(0, 99))
def test_no_later_price_changes_an_answer(history, name, day, seed):
    zone, price = parse_zone(name), history.price.copy()
    price[:] = np.where(np.isnan(price), 0.0, price)
    exam = price_exam(replace(history, price=price), zone)
    later = exam.question_s >= exam.question_s[:1] + day * DAY_S + 7200
    changed = price.copy()
    changed[len(price) - int(later.sum()) :] += np.random.default_rng(seed).normal(0, 50, int(later.sum()))
    before, after = (
        take_exam(PricePredictor(zone, members=(BLEND,)), price_exam(replace(history, price=each), zone))
        for each in (price, changed)
    )
    np.testing.assert_array_equal(before.mean[~later], after.mean[~later])
    np.testing.assert_array_equal(before.quantiles[~later], after.quantiles[~later])


def test_last_week_answers_with_last_week_and_gaps_are_not_scored(history):
    weeks = history(21)
    weeks.price[24 * 15 + 3] = NAN
    exam = price_exam(weeks, parse_zone("Europe/Brussels"), after_days=14)
    reported = take_exam(PricePredictor(parse_zone("Europe/Brussels"), members=(LAST_WEEK,)), exam)
    np.testing.assert_array_equal(reported.mean, weeks.price[24 * 7 : 24 * 14])
    score = compute_score(exam.actual, reported, naive=reported)
    assert (score.count, score.relative_mae) == (24 * 7 - 1, 1.0)


@given(st.integers(0, 50), st.integers(0, 20), st.integers(0, 20))
def test_taken_rows_are_the_steps_at_their_times(count, first, more):
    price = np.arange(100.0)
    rows = np.arange(first, first + more)
    history = PriceHistory(900 * count, 1800, price).take(rows)
    assert history.price.tolist() == rows.tolist()
    if more:
        assert (
            history.steps
            == PriceSteps(900 * count, 1800, 100).take(rows)
            == PriceSteps(900 * count + 1800 * first, 1800, more)
        )
    assert len(PriceSteps(0, 900, count).take(np.zeros(count, np.bool_))) == 0


@pytest.mark.parametrize("rows", [np.array([0, 2]), np.array([1, 0]), np.array([True, False, True])])
def test_rows_with_others_between_them_are_refused(rows):
    with pytest.raises(BadPrices, match="not a series"):
        PriceSteps(0, 900, 3).take(rows)
