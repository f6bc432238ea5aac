"""Inputs of the price forecast: they help, none is used before it is known, and nothing breaks where one is missing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.predictors.prices.history import Past, PriceHistory, PriceSteps
from offpeak.predictors.prices.lear import Lear
from offpeak.predictors.prices.models import BLEND, WITH_INPUTS, Member
from offpeak.predictors.prices.outlook import TrackedDay, judge_forecasts, price_fallback
from offpeak.predictors.prices.predictor import PricePredictor

BRUSSELS = parse_zone("Europe/Brussels")
MONDAY_S = 1_609_714_800
DAYS = 80
MEMBERS = (BLEND, Member("LEAR with inputs", Lear(56, inputs=True).fit, 42, inputs=True))
RECIPE = Lear(penalty=0.02, inputs=True)


def load_gw(days: int = DAYS) -> np.ndarray:
    """Return loads that no earlier day tells, float64[days, 24]."""
    random = np.random.default_rng(8)
    daily = 50 + 10 * np.sin(np.arange(24) / 4)
    return (daily + random.normal(0, 8, (120, 1)) + random.normal(0, 2, (120, 24)))[:days]


def past_of(load: np.ndarray, days: int, *, inputs: np.ndarray | None = None) -> Past:
    price = 1.5 * load + np.random.default_rng(9).normal(0, 1, load.shape)
    values = load[:, None] if inputs is None else inputs
    return Past(0, price[:days], np.ones(days, np.bool_), np.arange(len(load)) % 7, values)


def history_of(values: np.ndarray, from_day: int = 0) -> PriceHistory:
    return PriceHistory(MONDAY_S + from_day * DAY_S, 3600, values[from_day:].ravel())


def learn_price(predictor: PricePredictor, days: int, from_day: int = 0) -> None:
    prices = history_of(past_of(load_gw(), days).price, from_day)
    predictor.learn(prices, prices.steps.end_s)


def predictor_of(price_days: int, load: np.ndarray | None, *, lived: int = 8) -> PricePredictor:
    """Return one that was asked on each of the last `lived` days, and knew the load of the day before it began."""
    predictor = PricePredictor(BRUSSELS, members=MEMBERS, inputs=("load",))
    for days in range(price_days - lived, price_days + 1):
        learn_price(predictor, days)
        if load is not None:
            predictor.learn_input("load", history_of(load[: days + 1]))
        day_after(predictor, days)
    return predictor


def day_after(predictor: PricePredictor, days: int):
    return predictor.predict(PriceSteps(MONDAY_S + days * DAY_S, 3600, 24), MONDAY_S + days * DAY_S)


def test_an_input_that_sets_the_price_halves_the_error():
    load = load_gw(120)
    wrong = {recipe: [] for recipe in (RECIPE, replace(RECIPE, inputs=False))}
    for days in range(90, 119, 9):
        past, price = past_of(load, days), past_of(load, days + 1).price[-1]
        for recipe, errors in wrong.items():
            errors.append(np.abs(recipe.fit(past)(past) - price).mean())
    with_inputs, without = map(np.mean, wrong.values())
    assert with_inputs < 0.5 * without


@settings(max_examples=4)
@given(st.integers(50, DAYS - 2), st.floats(-1e6, 1e6) | st.just(float("nan")))
def test_no_value_of_a_later_day_changes_a_forecast(days, value):
    load = load_gw()
    past = past_of(load, days)
    later = past.inputs.copy()
    later[days + 1 :] = value
    changed = replace(past, inputs=later)
    np.testing.assert_array_equal(RECIPE.fit(past)(past), RECIPE.fit(changed)(changed))


@pytest.mark.parametrize("inputs", [np.empty((0, 0, 24)), np.full((DAYS, 1, 24), np.nan), np.empty((60, 1, 24))])
def test_it_is_silent_where_no_input_is_known_for_the_coming_day(inputs):
    past = past_of(load_gw(), 60, inputs=inputs)
    assert np.isnan(RECIPE.fit(past)(past)).all()


def test_an_input_of_few_days_is_not_used():
    load = load_gw()
    new = np.where(np.arange(DAYS)[:, None] < 40, np.nan, 1e3 * load)
    past = past_of(load, 60, inputs=np.stack([load, new], axis=1))
    alone = past_of(load, 60)
    np.testing.assert_allclose(RECIPE.fit(past)(past), RECIPE.fit(alone)(alone))


@pytest.mark.parametrize("missing", [slice(10, 13), slice(59, 60), slice(53, 54)])
def test_days_without_a_value_still_serve(missing):
    load = load_gw()
    known = load.copy()
    known[missing] = np.nan
    past = past_of(load, 60, inputs=known[:, None])
    coming, price = RECIPE.fit(past)(past), past_of(load, 61).price[-1]
    assert np.abs(coming - price).mean() < 6


def test_a_constant_input_changes_nothing():
    past = past_of(load_gw(), 60, inputs=np.full((DAYS, 1, 24), 7.0))
    alone = replace(RECIPE, inputs=False)
    np.testing.assert_allclose(RECIPE.fit(past)(past), alone.fit(past)(past), rtol=1e-3)


def test_each_day_is_forecast_with_the_inputs_that_are_known_for_it():
    load = load_gw()
    noise = np.random.default_rng(4).normal(0, 1, load.shape)
    both = past_of(load, 60, inputs=np.stack([load, noise], axis=1))
    both.inputs[60, 1] = np.nan
    model = RECIPE.fit(both)
    alone = past_of(load, 60)
    np.testing.assert_allclose(model(both), RECIPE.fit(alone)(alone))
    both.inputs[60, 0] = np.nan
    assert np.isnan(model(both)).all()


def test_the_predictor_says_that_it_uses_inputs_and_forecasts_the_rest_without():
    with_load = predictor_of(60, load_gw(61))
    assert "LEAR with inputs" in day_after(with_load, 60).basis[0]
    further = day_after(with_load, 61)
    assert np.isfinite(further.quantiles).all()
    assert "with inputs" not in further.basis[0]
    without = day_after(predictor_of(60, None), 60)
    assert "LEAR" not in without.basis[0]
    price = past_of(load_gw(), 61).price[-1]
    assert np.abs(day_after(with_load, 60).mean - price).mean() < 0.6 * np.abs(without.mean - price).mean()


def test_days_without_inputs_have_the_interval_of_the_models_that_forecast_them():
    with_load, without = predictor_of(60, load_gw(61)), predictor_of(60, None)
    widths = [np.ptp(day_after(each, 61).quantiles, axis=1).mean() for each in (with_load, without)]
    assert widths[0] == pytest.approx(widths[1])
    assert np.ptp(day_after(with_load, 60).quantiles, axis=1).mean() < 0.5 * widths[0]


def test_an_input_that_is_new_counts_after_a_week():
    new = predictor_of(60, None)
    for days in range(60, 69):
        learn_price(new, days)
        new.learn_input("load", history_of(load_gw(days + 1)))
        assert ("with inputs" in day_after(new, days).basis[0]) == (days >= 67)


def test_values_that_came_after_the_prices_were_not_forecast_with():
    late = predictor_of(60, None)
    for days in range(60, 70):
        learn_price(late, days)
        assert "with inputs" not in day_after(late, days).basis[0]
        late.learn_input("load", history_of(load_gw(days + 1)))
        learn_price(late, days + 1)
        day_after(late, days + 1)
    assert "with inputs" not in day_after(late, 70).basis[0]


def test_a_day_with_fewer_inputs_is_left_to_the_others():
    """What was judged with two inputs says nothing of one."""
    predictor = PricePredictor(BRUSSELS, members=MEMBERS, inputs=("load", "wind"))
    noise = np.random.default_rng(4).normal(0, 1, (DAYS, 24))
    for days in range(50, 61):
        learn_price(predictor, days)
        predictor.learn_input("load", history_of(load_gw(days + 1)))
        predictor.learn_input("wind", history_of(noise[: days + (days < 60)]))
        basis = day_after(predictor, days).basis[0]
        assert ("with inputs" in basis) == (57 <= days < 60)


def test_what_was_learned_is_kept():
    before = predictor_of(60, load_gw(61))
    same = PricePredictor(BRUSSELS, members=MEMBERS, inputs=("load",))
    same.restore(before.state())
    assert same.input_history("load").steps.end_s == before.input_history("load").steps.end_s == MONDAY_S + 61 * DAY_S
    np.testing.assert_array_equal(day_after(same, 60).mean, day_after(before, 60).mean)
    assert "with inputs" in day_after(same, 60).basis[0]


@pytest.mark.parametrize("inputs", [(), ("wind", "load"), ("wind",), ("load of another place",)])
def test_inputs_may_come_and_go_between_two_runs(inputs):
    other = PricePredictor(BRUSSELS, members=MEMBERS, inputs=inputs)
    other.restore(predictor_of(60, load_gw(61)).state())
    for name in inputs:
        other.learn_input(name, history_of(load_gw(61)))
    known = day_after(other, 60)
    assert np.isfinite(known.mean).all()
    assert "with inputs" not in known.basis[0]


def test_prices_are_kept_where_the_members_are_others():
    before = predictor_of(60, load_gw(61))
    upgraded = PricePredictor(BRUSSELS, members=(*MEMBERS, *WITH_INPUTS), inputs=("load",))
    upgraded.restore(before.state())
    assert upgraded.known_until_s == before.known_until_s
    assert np.isfinite(day_after(upgraded, 60).mean).all()


def test_quarter_hours_and_gaps_of_hours_are_filled():
    predictor = predictor_of(60, load_gw(60))
    quarters = PriceHistory(MONDAY_S, 900, np.repeat(load_gw(61).ravel(), 4))
    cut = quarters.price.copy()
    cut[60 * 96 + 8 : 60 * 96 + 16] = np.nan
    assert "with inputs" not in day_after(predictor, 60).basis[0]
    predictor.learn_input("load", replace(quarters, price=cut))
    assert "with inputs" in day_after(predictor, 60).basis[0]


def test_the_fallback_judges_the_forecast_that_was_used():
    """On the last day one input is unknown: prices alone are used, though errors with both were small."""
    forecast = np.stack([np.full(24, 5.0), np.zeros(24)])
    both, one = TrackedDay(forecast, 3), TrackedDay(forecast, 2)
    past = Past(0, np.zeros((20, 24)), np.ones(20, np.bool_), np.zeros(28, np.int64))
    choice = price_fallback()
    judge_forecasts(past, {**dict.fromkeys(range(9, 19), both), 19: one}, choice, 19, MEMBERS)
    assert choice.state()["error"][:, 1].tolist() == [5.0] * 24
