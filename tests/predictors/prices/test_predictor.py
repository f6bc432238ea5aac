"""The predictor of prices: published ones are returned, the rest is forecast, and nothing later is known."""

import gzip
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import PriceHistory, PriceSteps
from offpeak.predictors.prices.models import BLEND, LAST_WEEK, WEEK_MEAN, YESTERDAY
from offpeak.predictors.prices.predictor import PUBLISHED, PricePredictor

BRUSSELS = parse_zone("Europe/Brussels")
QUICK = (YESTERDAY, LAST_WEEK, WEEK_MEAN, BLEND)
MONDAY_S = 1_609_714_800
NAN = float("nan")


def taught(history: PriceHistory, **how) -> PricePredictor:
    predictor = PricePredictor(BRUSSELS, **how)
    predictor.learn(history, history.steps.end_s)
    return predictor


def ask(predictor: PricePredictor, start_s: int, step_s: int = 3600, count: int = 36):
    return predictor.predict(PriceSteps(start_s, step_s, count), start_s)


def finer(history: PriceHistory, step_s: int) -> PriceHistory:
    return PriceHistory(history.start_s, step_s, np.repeat(history.price, 3600 // step_s))


def test_published_prices_are_returned_as_certain(history):
    week = history(7)
    reported = ask(taught(week, members=QUICK), week.steps.end_s - 6 * 3600, count=12)
    np.testing.assert_allclose(reported.mean[:6], week.price[-6:])
    np.testing.assert_allclose(reported.quantiles[:6], week.price[-6:, None].repeat(3, axis=1))
    assert reported.basis[:6] == (PUBLISHED,) * 6
    assert all("days" in basis for basis in reported.basis[6:])
    assert (np.diff(reported.quantiles[6:], axis=1) >= 0).all()


@pytest.mark.parametrize("step_s", [900, 1800])
def test_finer_steps_of_hourly_prices_say_the_same(history, step_s):
    weeks = history(20)
    hourly = ask(taught(weeks, members=QUICK), weeks.steps.end_s)
    fine = ask(taught(finer(weeks, step_s), members=QUICK), weeks.steps.end_s, step_s, 36 * 3600 // step_s)
    np.testing.assert_allclose(fine.mean, hourly.mean.repeat(3600 // step_s))


def test_the_course_within_hours_goes_on(history):
    weeks = finer(history(20), 900)
    ramp = PriceHistory(weeks.start_s, 900, weeks.price + np.tile([-6.0, -2.0, 2.0, 6.0], len(weeks.price) // 4))
    reported = ask(taught(ramp, members=QUICK), weeks.steps.end_s, 900, 96).mean.reshape(24, 4)
    around = reported - reported.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(around, np.tile([-6, -2, 2, 6], (24, 1)), atol=1e-9)


@pytest.mark.parametrize("start", ["2021-03-26", "2021-10-29"])
def test_days_on_which_the_clocks_change(start):
    start_s = int(np.datetime64(start).astype("datetime64[s]").astype(np.int64)) - DAY_S * 21
    clock = [9.0 if 8 <= (start_s // 3600 + i) % 24 < 20 else 1.0 for i in range(24 * 21)]
    reported = ask(taught(PriceHistory(start_s, 3600, np.array(clock)), members=QUICK), start_s + DAY_S * 21, count=96)
    assert np.isfinite(reported.mean).all()
    assert np.ptp(reported.mean) > 4


def test_three_days_are_enough_and_one_serves(history):
    for days in (1, 2, 3):
        reported = ask(taught(history(days)), history(days).steps.end_s)
        assert np.isfinite(reported.mean).all()
        assert np.isfinite(reported.quantiles).all()


def test_without_prices_it_says_what_is_missing():
    for predictor in (PricePredictor(BRUSSELS), taught(PriceHistory(MONDAY_S, 3600, np.full(48, NAN)))):
        with pytest.raises(BadPrices, match="no day of prices is known") as problem:
            ask(predictor, MONDAY_S)
        assert problem.value.hint


@given(
    st.lists(st.one_of(st.floats(), st.floats(-100, 500)), min_size=48, max_size=24 * 12),
    st.integers(-50, 500),
    st.sampled_from([900, 1800, 3600]),
)
def test_forecast_is_finite_for_any_history(price, later_h, step_s):
    known = np.append(np.array(price), np.full(48, 40.0))
    reported = ask(taught(PriceHistory(MONDAY_S, 3600, known), members=QUICK), MONDAY_S + later_h * 3600, step_s)
    assert np.isfinite(reported.mean).all()
    assert np.isfinite(reported.quantiles).all()


def test_later_prices_do_not_change_what_was_reported_and_inputs_stay(history):
    weeks = history(50)
    price = weeks.price.copy()
    until = PriceHistory(weeks.start_s, 3600, weeks.price[: 24 * 40])
    before = ask(taught(until), until.steps.end_s)
    predictor = taught(until)
    again = ask(predictor, until.steps.end_s)
    predictor.learn(weeks, weeks.steps.end_s)
    np.testing.assert_array_equal(before.mean, again.mean)
    np.testing.assert_array_equal(weeks.price, price)
    assert ask(predictor, until.steps.end_s).basis == (PUBLISHED,) * 36


def test_price_predictor_can_be_saved_and_restored(history):
    predictor = taught(history(30))
    ask(predictor, history(30).steps.end_s)
    woken = pickle.loads(pickle.dumps(predictor))
    end_s = history(30).steps.end_s
    np.testing.assert_array_equal(ask(woken, end_s).mean, ask(predictor, end_s).mean)


def test_made_up_dates_may_be_any(history):
    weeks = history(60)
    reported = []
    for later_days in (0, 3):
        moved = PriceHistory(weeks.start_s + later_days * DAY_S, 3600, weeks.price)
        reported.append(ask(taught(moved, holidays=None), moved.steps.end_s))
    np.testing.assert_array_equal(reported[0].mean, reported[1].mean)


def test_price_predictor_needs_no_package_that_limits_threads(history, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert len(ask(taught(history(10)), history(10).steps.end_s)) == 36


def test_far_ahead_the_last_week_goes_on(history):
    weeks = history(20)
    predictor = taught(weeks, members=QUICK)
    end_s = weeks.steps.end_s
    np.testing.assert_array_equal(ask(predictor, end_s + 28 * DAY_S).mean, ask(predictor, end_s).mean)


def test_texas_in_june_2014(shared):
    text = (shared / "data" / "xsede_2014" / "XSEDE" / "Texas.csv").read_text()
    price = np.array(text.split()[1:], float).reshape(30, 24)
    message = [ask_day(price, day) for day in range(7, 30)]
    assert 100 * np.mean(np.abs(np.array(message) / price[7:] - 1)) <= 6.5


def ask_day(price: np.ndarray, day: int) -> np.ndarray:
    known = PriceHistory(MONDAY_S, 3600, price[:day].ravel())
    return ask(taught(known), MONDAY_S + day * DAY_S, count=24).mean


def test_a_month_of_the_german_market(shared):
    file = shared / "data" / "prices" / "epf" / "DE_2y_price_and_published_forecasts.csv.gz"
    with gzip.open(file, "rt") as rows:
        price = np.array([row.split(",")[1] for row in rows][1:], float)
    predictor = PricePredictor(parse_zone("UTC"), holidays="DE")
    wrong, naive, inside = [], [], []
    start_s = 1_451_865_600  # 2016-01-04
    for day in range(400, 428):
        predictor.learn(PriceHistory(start_s, 3600, price[: 24 * day]), start_s + day * DAY_S)
        reported, happened = ask(predictor, start_s + day * DAY_S, count=24), price[24 * day : 24 * day + 24]
        wrong.append(np.abs(reported.mean - happened).mean())
        naive.append(np.abs(price[24 * day - 168 : 24 * day - 144] - happened).mean())
        inside.append(np.mean((happened >= reported.quantiles[:, 0]) & (happened <= reported.quantiles[:, 2])))
    assert np.mean(wrong) < 0.7 * np.mean(naive)
    assert 0.65 < np.mean(inside) < 0.95
