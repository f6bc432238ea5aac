"""The forecast gives way to the prices of the week before while it errs more, and comes back."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.choice import NAIVE
from offpeak.predictors.port import load_model, save_model
from offpeak.predictors.prices.history import PriceHistory, PriceSteps
from offpeak.predictors.prices.models import BLEND, YESTERDAY
from offpeak.predictors.prices.outlook import FALLBACK_RULE, price_fallback
from offpeak.predictors.prices.predictor import PricePredictor

BRUSSELS = parse_zone("Europe/Brussels")
CLEAN_DAYS, BAD_DAYS, LATER_DAYS = 30, 21, 35
DAYS = CLEAN_DAYS + BAD_DAYS + LATER_DAYS
NIGHT_S = 1_609_714_800
"""2021-01-04 00:00 in Brussels."""
BAD = slice(24 * CLEAN_DAYS, 24 * (CLEAN_DAYS + BAD_DAYS))


def spiky(price: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(5).random(len(price)) < 0.1, 4000.0, price)


NONSENSE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda price: np.full(len(price), 42.0),
    "sign-flipped": lambda price: -price,
    "hours shifted": lambda price: np.roll(price, 7),
    "spikes of 4,000": spiky,
    "noise": lambda price: np.random.default_rng(6).uniform(-500, 4000, len(price)),
}


@pytest.fixture
def market(history) -> np.ndarray:
    """Prices whose level wanders, so that yesterday tells more than the week before."""
    level = np.cumsum(np.random.default_rng(4).normal(0, 6, DAYS))
    return 60 + 0.5 * history(DAYS, noise=1.0).price + np.repeat(level, 24)


def predictor_of() -> PricePredictor:
    return PricePredictor(BRUSSELS, members=(BLEND,), fallback=price_fallback())


def day_by_day(price: np.ndarray, predictor: PricePredictor, days: range) -> tuple[np.ndarray, list[int]]:
    """Return the forecast of each day from the days before it, float64[days, 24], and which one was used."""
    given_price, used = [], []
    for day in days:
        predictor.learn(PriceHistory(NIGHT_S, 3600, price[: 24 * day]), NIGHT_S + day * DAY_S)
        given_price.append(predictor.predict(PriceSteps(NIGHT_S + day * DAY_S, 3600, 24), NIGHT_S + day * DAY_S).mean)
        used.append(predictor.fallback.used)
    return np.array(given_price), used


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_feed_that_becomes_nonsense_and_recovers(market, kind) -> None:
    price = market.copy()
    price[BAD] = NONSENSE[kind](price[BAD])
    days = range(14, DAYS)
    given_price, used = day_by_day(price, predictor_of(), days)
    by_day = price.reshape(-1, 24)
    errors = np.abs(given_price - by_day[14:]).mean(axis=1)
    copy_errors = np.abs(by_day[7:-7] - by_day[14:]).mean(axis=1)
    assert errors.sum() <= (1 + FALLBACK_RULE.margin) * copy_errors.sum() + errors.max()
    assert used[CLEAN_DAYS - 14] != NAIVE
    assert used[-1] != NAIVE
    # The blend adapts to the others faster than a week.
    assert (NAIVE in used) == (kind == "spikes of 4,000")


def test_it_is_used_again_when_it_errs_less() -> None:
    random = np.random.default_rng(1)
    courses = np.tile(random.uniform(0, 200, 24 * 7), 4)
    levels = np.repeat(100 + np.cumsum(random.normal(0, 20, 28)), 24)
    predictor = PricePredictor(BRUSSELS, members=(YESTERDAY,), fallback=price_fallback())
    _, used = day_by_day(np.concatenate([levels, courses, courses, levels]), predictor, range(8, 4 * 28))
    assert [used[day - 8] for day in (28, 56, 84, 111)] == [1, NAIVE, NAIVE, 1]
    assert np.count_nonzero(np.diff(used)) == 2


def test_while_the_forecast_errs_more_the_prices_of_the_week_before_stand_for_it() -> None:
    # Every day of a week has its own course, so that yesterday tells nothing of today.
    price = np.tile(np.random.default_rng(1).uniform(0, 200, 24 * 7), 8) + np.random.default_rng(2).normal(
        0, 1, 24 * 56
    )
    predictor = PricePredictor(BRUSSELS, members=(YESTERDAY,), fallback=price_fallback())
    known = PriceHistory(NIGHT_S, 3600, price)
    predictor.learn(known, known.steps.end_s)
    coming = predictor.predict(PriceSteps(known.steps.end_s, 3600, 48), known.steps.end_s)
    assert coming.mean.tolist() == coming.point.tolist() == price[-7 * 24 : -5 * 24].tolist()
    assert (coming.quantiles[:, 0] < coming.mean).all()
    assert set(coming.basis) == {"forecast: the prices of the week before, which err less"}
    errors = predictor.fallback.errors
    assert errors.used == errors.naive == "week before"
    assert errors.mae == errors.naive_mae == pytest.approx(predictor.origin.mae, rel=0.2)
    assert errors.outcomes == FALLBACK_RULE.window


def test_a_model_file_carries_the_errors_and_the_choice(market, tmp_path) -> None:
    price = market.copy()
    price[BAD] = spiky(price[BAD])
    whole = predictor_of()
    through, used = day_by_day(price, whole, range(14, DAYS))
    stop = CLEAN_DAYS + 7
    first = predictor_of()
    day_by_day(price, first, range(14, stop))
    assert first.fallback.used == NAIVE
    save_model(tmp_path / "model.npz", first, first.origin)
    restored = predictor_of()
    load_model(tmp_path / "model.npz", restored)
    assert restored.fallback.errors == first.fallback.errors
    after, used_after = day_by_day(price, restored, range(stop, DAYS))
    assert after.tolist() == through[stop - 14 :].tolist()
    assert used_after == used[stop - 14 :]
    assert restored.fallback.errors == whole.fallback.errors


def test_a_model_file_without_a_choice_keeps_its_prices_and_is_judged_again(history, tmp_path) -> None:
    weeks = history(40)
    older = PricePredictor(BRUSSELS, members=(BLEND,))
    older.learn(weeks, weeks.steps.end_s)
    older.predict(PriceSteps(weeks.steps.end_s, 3600, 24), weeks.steps.end_s)
    save_model(tmp_path / "model.npz", older, older.origin)
    newer = predictor_of()
    load_model(tmp_path / "model.npz", newer)
    assert newer.fallback.errors.outcomes == 0
    newer.predict(PriceSteps(weeks.steps.end_s, 3600, 24), weeks.steps.end_s)
    assert newer.known_until_s == older.known_until_s
    assert newer.fallback.errors.outcomes == FALLBACK_RULE.window


@given(st.lists(st.one_of(st.floats(), st.floats(-100, 500)), min_size=24 * 8, max_size=24 * 20), st.integers(-50, 500))
def test_forecast_with_a_fallback_is_finite_for_any_history(price, later_h) -> None:
    predictor = predictor_of()
    known = np.append(np.array(price), np.full(48, 40.0))
    predictor.learn(PriceHistory(NIGHT_S, 3600, known), NIGHT_S)
    reported = predictor.predict(PriceSteps(NIGHT_S + later_h * 3600, 3600, 36), NIGHT_S)
    assert np.isfinite(reported.quantiles).all()
    assert (np.diff(reported.quantiles, axis=1) >= 0).all()
