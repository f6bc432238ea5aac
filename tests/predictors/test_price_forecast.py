"""Prices of the coming hours: published, forecast or by the tariff, whatever is pulled."""

from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.feed import Feed, fetch_within
from offpeak.predictors.feeds.port import (
    FeedCondition,
    FeedProblem,
    FeedQuantity,
    SourceAnswer,
    Window,
    clip_series,
    price_quantity,
)
from offpeak.predictors.price_forecast import PriceSource, forecast_prices
from offpeak.prices.tariff import parse_tariff

HOUR, DAY = 3600, 86_400
BRUSSELS = ZoneInfo("Europe/Brussels")
MIDNIGHT = 1_730_674_800
NOW = MIDNIGHT + 15 * HOUR
WINDOW = Window(NOW, NOW + 36 * HOUR)


@dataclass(frozen=True)
class Market:
    """A source that has hourly prices until an hour, and counts nothing else."""

    until_s: int
    step_s: int = HOUR
    name: str = "market"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        start_s = np.arange(MIDNIGHT - 20 * DAY, self.until_s, self.step_s, dtype=np.int64)
        hour = (start_s // HOUR) % 24
        price = 60 + 20 * np.sin(hour / 4) + np.random.default_rng(1).normal(0, 3, len(start_s))
        series = Series(start_s, self.until_s, price, "EUR/MWh", self.name)
        return clip_series(series, window) or FeedProblem(FeedCondition.NOT_YET_PUBLISHED, self.name, "nothing yet")


@dataclass(frozen=True)
class Broken:
    """A source that fails as it is told to."""

    condition: FeedCondition
    name: str = "broken"
    own: bool = False

    def fetch(self, _: Window) -> SourceAnswer:
        return FeedProblem(self.condition, self.name, "as told")


def source_of(source, tmp_path, limit_s=5.0):
    feed = Feed((source,), tmp_path / "cache" / "prices.csv", price_quantity("EUR"), BRUSSELS, limit_s)
    return PriceSource(feed, parse_tariff("on=90EUR/MWh,off=30EUR/MWh"), tmp_path / "cache" / "model.npz", "BE")


def test_published_price_is_never_forecast(tmp_path):
    known = source_of(Market(MIDNIGHT + DAY), tmp_path)
    forecast = forecast_prices(known, WINDOW, NOW)
    published = np.array([each == "published" for each in forecast.prediction.basis])
    assert published.tolist() == [True] * 9 + [False] * 27
    answer = fetch_within(known.feed.sources[0], Window(NOW, MIDNIGHT + DAY), 5)
    np.testing.assert_allclose(forecast.prediction.mean[:9], answer.value)
    assert (forecast.prediction.quantiles[:9] == forecast.prediction.mean[:9, None]).all()
    assert (np.ptp(forecast.prediction.quantiles[9:], axis=1) > 0).all()
    assert forecast.origin.outcomes == 21 * 96
    assert forecast.origin.mae < 15


def test_quarters_of_an_hour_stay_quarters(tmp_path):
    forecast = forecast_prices(source_of(Market(MIDNIGHT + DAY, step_s=900), tmp_path), WINDOW, NOW)
    assert forecast.steps.step_s == 900
    assert len(forecast.prediction) == 36 * 4


@pytest.mark.parametrize(
    "condition", [FeedCondition.REFUSED, FeedCondition.HANGING, FeedCondition.GARBAGE, FeedCondition.NO_NETWORK]
)
def test_without_the_network_the_forecast_rests_on_what_was_kept(tmp_path, condition):
    working = source_of(Market(MIDNIGHT + DAY), tmp_path)
    before = forecast_prices(working, WINDOW, NOW)
    cut = replace(working, feed=replace(working.feed, sources=(Broken(condition),)))
    after = forecast_prices(cut, WINDOW, NOW + 5 * HOUR)
    assert after.prediction.mean.tolist() == before.prediction.mean.tolist()
    assert set(before.prediction.basis) - set(after.prediction.basis) == {"published"}
    assert set(after.prediction.basis) - set(before.prediction.basis) == {"cached 5 h"}
    assert condition in {problem.condition for problem in after.problems}


@pytest.mark.parametrize("condition", [FeedCondition.REFUSED, FeedCondition.HANGING, FeedCondition.GARBAGE])
def test_without_anything_the_tariff_holds(tmp_path, condition):
    forecast = forecast_prices(source_of(Broken(condition), tmp_path), WINDOW, NOW)
    assert set(forecast.prediction.basis) == {"tariff"}
    assert set(forecast.prediction.mean) == {30, 90}
    assert [problem.condition for problem in forecast.problems] == [condition]
    assert forecast.origin is None


def test_some_published_hours_stand_before_the_tariff(tmp_path):
    few = source_of(Market(MIDNIGHT - 20 * DAY + 6 * HOUR), tmp_path)
    start_s = MIDNIGHT - 20 * DAY
    forecast = forecast_prices(few, Window(start_s, start_s + 12 * HOUR), start_s)
    assert forecast.prediction.basis == ("published",) * 6 + ("tariff",) * 6


@pytest.mark.parametrize("days", [0, 19])
def test_an_hour_of_prices_by_five_minutes_has_their_mean(tmp_path, days):
    start_s = MIDNIGHT - 20 * DAY
    market = Market(start_s + (days + 1) * DAY, step_s=300, own=True)
    window = Window(start_s + days * DAY, start_s + days * DAY + 6 * HOUR)
    forecast = forecast_prices(source_of(market, tmp_path), window, window.from_s)
    message = market.fetch(window).value.reshape(forecast.steps.count, -1).mean(axis=1)
    np.testing.assert_allclose(forecast.prediction.point, message)
    assert set(forecast.prediction.basis) == {"published"}


def test_prices_of_last_month_tell_nothing_of_this_one(tmp_path):
    stale = source_of(Market(MIDNIGHT - 10 * DAY), tmp_path)
    forecast = forecast_prices(stale, WINDOW, NOW)
    assert set(forecast.prediction.basis) == {"tariff"}
    assert [problem.detail for problem in forecast.problems if problem.condition is FeedCondition.TOO_OLD] == [
        "the last one ends 2024-10-24T23:00Z"
    ]


def test_hours_that_are_known_already_are_requested_all_the_same(tmp_path):
    source = source_of(Market(MIDNIGHT + DAY), tmp_path)
    forecast_prices(source, WINDOW, NOW)
    again = forecast_prices(source, Window(NOW, NOW + 6 * HOUR), NOW)
    assert again.prediction.basis == ("published",) * 6
    assert again.problems == ()


def test_a_model_that_is_damaged_in_part_leaves_nothing_behind(tmp_path):
    source = source_of(Market(MIDNIGHT + DAY), tmp_path)
    whole = forecast_prices(source, WINDOW, NOW)
    with np.load(source.model) as archive:
        held = dict(archive)
    held["state.price"] = held["state.price"] + 1000
    held["state.said"] = held["state.said"].astype(str)
    held["state.said"][:] = "nothing"
    np.savez(source.model, **held)
    assert forecast_prices(source, WINDOW, NOW).prediction.mean.tolist() == whole.prediction.mean.tolist()


def test_a_damaged_model_is_made_again(tmp_path):
    source = source_of(Market(MIDNIGHT + DAY), tmp_path)
    whole = forecast_prices(source, WINDOW, NOW)
    source.model.write_bytes(b"nothing of the kind")
    again = forecast_prices(source, WINDOW, NOW)
    assert again.prediction.mean.tolist() == whole.prediction.mean.tolist()
    assert [problem.condition for problem in again.problems if problem.source == "model"] == ["cache damaged"]
    assert not forecast_prices(source, WINDOW, NOW).problems[1:]


def test_a_model_that_cannot_be_kept_is_reported(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    forecast = forecast_prices(source_of(Market(MIDNIGHT + DAY), tmp_path), WINDOW, NOW)
    assert "cache cannot be written" in {
        str(problem.condition) for problem in forecast.problems if problem.source == "model"
    }
    assert "published" in forecast.prediction.basis


def test_a_tariff_that_changes_within_an_hour_is_reported_in_shorter_steps(tmp_path):
    source = source_of(Broken(FeedCondition.NO_NETWORK), tmp_path)
    halves = parse_tariff("on=90EUR/MWh,off=30EUR/MWh,hours=06:30-22:00,zone=Europe/Brussels")
    whole = forecast_prices(source, WINDOW, NOW)
    assert whole.steps.step_s == HOUR
    finer = forecast_prices(replace(source, tariff=halves), WINDOW, NOW)
    first = (MIDNIGHT + DAY + 6 * HOUR - NOW) // 1800
    assert finer.steps.step_s == 1800
    assert finer.prediction.mean[first : first + 3].tolist() == [30, 90, 90]


@dataclass(frozen=True)
class Load:
    """An input that is known until an hour."""

    until_s: int
    name: str = "load"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        start_s = np.arange(MIDNIGHT - 60 * DAY, self.until_s, HOUR, dtype=np.int64)
        series = Series(start_s, self.until_s, load_mw(start_s), "MW", self.name)
        return clip_series(series, window) or FeedProblem(FeedCondition.NOT_YET_PUBLISHED, self.name, "nothing yet")


def load_mw(start_s):
    day = np.random.default_rng(3).normal(0, 9e3, 400)[(start_s - MIDNIGHT) // DAY]
    return 5e4 + day + 1e4 * np.sin(start_s % DAY / DAY * 7)


@dataclass(frozen=True)
class LoadedMarket(Load):
    """A source of prices that follow the load."""

    name: str = "market"

    def fetch(self, window: Window) -> SourceAnswer:
        load = super().fetch(window)
        if isinstance(load, FeedProblem):
            return load
        return replace(load, value=load.value / 500, unit="EUR/MWh")


LOAD = FeedQuantity("MW", 0.0, 5e5, final=False)


def with_input(source, tmp_path, limit_s=5.0):
    priced = source_of(LoadedMarket(MIDNIGHT), tmp_path)
    return replace(priced, inputs=(("load", Feed((source,), tmp_path / "load.csv", LOAD, BRUSSELS, limit_s)),))


TODAY = Window(MIDNIGHT, MIDNIGHT + DAY)


def live(source, *, days=8):
    """Ask at midnight for a week, as the input is known until the end of each day, and return the source of today."""
    for back in range(days, -1, -1):
        now_s = MIDNIGHT - back * DAY
        feed = replace(source.feed, sources=(LoadedMarket(now_s),))
        inputs = tuple((name, replace(each, sources=(Load(now_s + DAY),))) for name, each in source.inputs)
        today = replace(source, feed=feed, inputs=inputs)
        if back:
            forecast_prices(today, Window(now_s, now_s + DAY), now_s)
    return today


def test_an_input_is_learned_and_makes_the_forecast_better(tmp_path):
    known = forecast_prices(live(with_input(Load(MIDNIGHT + DAY), tmp_path)), TODAY, MIDNIGHT)
    assert "with inputs" in known.prediction.basis[0]
    assert known.problems == ()
    alone = forecast_prices(source_of(LoadedMarket(MIDNIGHT), tmp_path / "alone"), TODAY, MIDNIGHT)
    price = load_mw(MIDNIGHT + HOUR * np.arange(24)) / 500
    errors = [np.abs(each.prediction.point - price).mean() for each in (known, alone)]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("condition", [FeedCondition.KEY_REFUSED, FeedCondition.GARBAGE, FeedCondition.NO_NETWORK])
def test_without_its_input_the_forecast_goes_on_and_says_so(tmp_path, condition):
    forecast = forecast_prices(with_input(Broken(condition, "load"), tmp_path), TODAY, MIDNIGHT)
    assert "LEAR" in forecast.prediction.basis[0]
    assert "with inputs" not in forecast.prediction.basis[0]
    assert [(problem.source, problem.condition) for problem in forecast.problems] == [("load", condition)]


def test_an_input_that_ends_is_not_used_for_days_without(tmp_path):
    source = live(with_input(Load(MIDNIGHT + DAY), tmp_path))
    assert "with inputs" in forecast_prices(source, TODAY, MIDNIGHT).prediction.basis[0]
    ended = replace(source, inputs=(("load", replace(source.inputs[0][1], sources=(Broken(FeedCondition.HANGING),))),))
    day_later = Window(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)
    later = forecast_prices(
        replace(ended, feed=replace(ended.feed, sources=(LoadedMarket(MIDNIGHT + DAY),))), day_later, MIDNIGHT + DAY
    )
    assert "with inputs" not in later.prediction.basis[0]
    assert np.isfinite(later.prediction.quantiles).all()
    assert FeedCondition.HANGING in {problem.condition for problem in later.problems}


def test_an_input_that_is_revised_replaces_what_was_known(tmp_path):
    source = live(with_input(Load(MIDNIGHT + DAY), tmp_path))
    before = forecast_prices(source, TODAY, MIDNIGHT)

    @dataclass(frozen=True)
    class Revised(Load):
        def fetch(self, window: Window) -> SourceAnswer:
            answer = super().fetch(window)
            return replace(answer, value=np.where(answer.start_s >= MIDNIGHT, answer.value + 1e4, answer.value))

    revised = replace(source.inputs[0][1], sources=(Revised(MIDNIGHT + DAY),))
    after = forecast_prices(replace(source, inputs=(("load", revised),)), TODAY, MIDNIGHT)
    assert after.prediction.mean.mean() > before.prediction.mean.mean() + 10


def test_hours_of_today_alone_are_forecast_with_the_input_of_today(tmp_path):
    source = live(with_input(Load(MIDNIGHT + DAY), tmp_path))
    assert "with inputs" in forecast_prices(source, Window(MIDNIGHT, MIDNIGHT + 6 * HOUR), MIDNIGHT).prediction.basis[0]


def test_an_input_with_a_hole_is_asked_for_again_until_it_serves(tmp_path):
    asked = []

    @dataclass(frozen=True)
    class Late(Load):
        def fetch(self, window: Window) -> SourceAnswer:
            asked.append((MIDNIGHT - window.from_s) // DAY)
            first_s = MIDNIGHT - (2 if len(asked) == 1 else 60) * DAY
            return clip_series(super().fetch(window), Window(first_s, window.until_s))

    source = with_input(Late(MIDNIGHT + DAY), tmp_path)
    for _ in range(3):
        forecast_prices(source, TODAY, MIDNIGHT)
    assert asked == [56, 56, 2]
