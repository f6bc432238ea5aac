"""The curve of prices that the agent decides by."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series, value_at
from offpeak.model.weighing import BY_CO2, BY_PRICE
from offpeak.predictors.price_forecast import PriceCurve, price_curve, weigh_curve
from offpeak.predictors.site_sources import build_price_source
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout
from offpeak.prices.peak import Peak, classify, parse_peak_rule
from offpeak.settings.replay import FeedSettings, PriceSettings

BERLIN = ZoneInfo("Europe/Berlin")
TARIFF = "on=120EUR/MWh,off=40EUR/MWh,hours=06:30-22:00,days=mon-fri,zone=Europe/Berlin"
HOUR_S, DAY_S = 3600, 86_400


def curve_of(now_s: int, prices: PriceSettings, cache: Path = Path("nowhere"), ahead_s: int = 2 * DAY_S) -> PriceCurve:
    source, _ = build_price_source(FeedSettings(cache=cache), prices)
    return price_curve(source, parse_peak_rule("day-mean", zone=BERLIN), BERLIN, now_s=now_s, ahead_s=ahead_s)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


def test_a_tariff_is_exact_to_the_minute() -> None:
    now_s = at("2026-11-23T06:29")
    curve = curve_of(now_s, PriceSettings(tariff=TARIFF))
    assert curve.peak_at(now_s) is Peak.OFF_PEAK
    assert curve.peak_until_s(now_s) == at("2026-11-23T06:30")
    assert curve.peak_at(now_s + 60) is Peak.ON_PEAK
    assert curve.peak_until_s(now_s + 60) == at("2026-11-23T22:00")
    assert curve.series.value[curve.at(now_s + 60)] == 120
    assert set(curve.basis) == {"tariff"}


def test_a_flat_day_is_nowhere_dear() -> None:
    sunday_s = at("2026-11-22T12:00")
    curve = curve_of(sunday_s, PriceSettings(tariff=TARIFF))
    assert curve.peak_at(sunday_s) is Peak.OFF_PEAK
    assert curve.peak_until_s(sunday_s) == at("2026-11-23T06:30")


def test_outside_of_the_curve_nothing_is_reported() -> None:
    curve = curve_of(at("2026-11-23T12:00"), PriceSettings(tariff=TARIFF))
    assert curve.peak_at(curve.series.end_s) is Peak.UNKNOWN
    assert curve.peak_at(int(curve.series.start_s[0]) - 1) is Peak.UNKNOWN


def test_a_file_that_ends_is_followed_by_a_forecast(tmp_path: Path) -> None:
    file, start_s = tmp_path / "prices_eur_per_mwh.csv", at("2026-10-01T00:00")
    hours = range(start_s, at("2026-11-23T00:00"), HOUR_S)
    rows = [f"{datetime.fromtimestamp(hour, BERLIN):%Y-%m-%dT%H:%M:%S%z},{50 + hour // HOUR_S % 24}" for hour in hours]
    file.write_text("\n".join(["time,price", *rows]) + "\n")
    settings = PriceSettings(file=file, layout="time=time,value=price,unit=EUR/MWh")
    now_s = at("2026-11-22T12:00")
    curve = curve_of(now_s, settings, tmp_path)
    assert curve.basis[curve.at(now_s)] == "published"
    assert curve.basis[curve.at(at("2026-11-23T12:00"))].startswith("forecast")
    assert np.isfinite(curve.series.value).all()


@pytest.mark.parametrize("step_s", [60, 300, 900, 1800, HOUR_S, 4 * HOUR_S])
def test_prices_of_a_file_keep_its_steps(tmp_path: Path, step_s: int) -> None:
    file = tmp_path / "prices_eur_per_mwh.csv"
    begin_s, end_s, now_s = at("2026-11-16T00:00"), at("2026-11-23T00:00"), at("2026-11-22T12:00")
    starts_s = np.arange(begin_s, end_s, step_s)
    values = np.random.default_rng(7).uniform(-5, 200, len(starts_s)).round(2)
    rows = [
        f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%MZ},{value}"
        for start_s, value in zip(starts_s, values, strict=True)
    ]
    file.write_text("\n".join(["utc,price", *rows, ""]))
    curve = curve_of(now_s, PriceSettings(file=file), tmp_path)
    simulated, peak = classify(read_series(file, PriceFileLayout()), parse_peak_rule("day-mean", zone=BERLIN))
    seconds = np.arange(at("2026-11-22T00:00"), end_s, 30)
    assert value_at(curve.series, seconds).tolist() == value_at(simulated, seconds).tolist()
    in_engine = peak[np.searchsorted(simulated.start_s, seconds, side="right") - 1]
    assert [int(curve.peak_at(int(second))) for second in seconds] == in_engine.tolist()
    low, high = curve.range_80
    is_published = np.array(curve.basis) == "published"
    assert curve.series.length_s[is_published].sum() == DAY_S
    assert low[is_published].tolist() == high[is_published].tolist() == curve.series.value[is_published].tolist()


def test_the_tariff_behind_a_broken_file_is_exact_to_the_minute(tmp_path: Path) -> None:
    settings = PriceSettings(file=tmp_path / "none.csv", tariff=TARIFF)
    curve = curve_of(at("2026-11-23T06:29"), settings, tmp_path)
    assert curve.peak_until_s(at("2026-11-23T06:29")) == at("2026-11-23T06:30")
    assert set(curve.basis) == {"tariff"}


def test_prices_that_end_within_a_step_hold_until_there(tmp_path: Path) -> None:
    file, now_s = tmp_path / "prices_eur_per_mwh.csv", at("2026-11-22T12:00")
    starts_s = range(at("2026-11-01T00:00"), at("2026-11-22T18:20"), 300)
    rows = [
        f"{datetime.fromtimestamp(start_s, UTC):%Y-%m-%dT%H:%MZ},{50 + start_s // HOUR_S % 24}" for start_s in starts_s
    ]
    file.write_text("\n".join(["utc,price", *rows, ""]))
    curve = curve_of(now_s, PriceSettings(file=file), tmp_path)
    last = curve.at(at("2026-11-22T18:19"))
    assert curve.basis[last] == "published"
    assert curve.series.start_s[last + 1] == at("2026-11-22T18:20")
    assert curve.basis[last + 1].startswith("forecast")
    assert np.isfinite(curve.series.value).all()


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)), st.integers(0, 3 * DAY_S))
def test_it_holds_whole_local_days_around_now_and_what_is_requested(now: datetime, ahead_s: int) -> None:
    now_s = int(now.replace(tzinfo=BERLIN).timestamp())
    curve = curve_of(now_s, PriceSettings(tariff=TARIFF), ahead_s=ahead_s)
    first, last = (
        datetime.fromtimestamp(value, BERLIN) for value in (int(curve.series.start_s[0]), curve.series.end_s)
    )
    assert first.hour == first.minute == last.hour == last.minute == 0
    assert int(curve.series.start_s[0]) <= now_s
    assert now_s - int(curve.series.start_s[0]) < DAY_S + HOUR_S
    assert curve.series.end_s >= now_s + ahead_s
    assert curve.peak_until_s(now_s) > now_s


def test_decisions_by_co2_are_unknown_where_the_intensity_is() -> None:
    now_s, rule = at("2026-11-23T06:29"), parse_peak_rule("day-mean", zone=BERLIN)
    curve = curve_of(now_s, PriceSettings(tariff=TARIFF))
    assert weigh_curve(curve, None, BY_PRICE, rule).decisions is curve
    clean_until_s, known_until_s = at("2026-11-23T12:00"), at("2026-11-24T00:00")
    start_s = np.array([at("2026-11-23T00:00"), clean_until_s])
    carbon = Series(start_s, known_until_s, np.array([100.0, 400.0]), "g/kWh", "test")
    weighed = weigh_curve(curve, carbon, BY_CO2, rule)
    assert weighed.series is curve.series
    assert weighed.decisions.peak_at(now_s) is Peak.OFF_PEAK
    assert weighed.decisions.peak_until_s(now_s) == clean_until_s
    assert weighed.decisions.peak_at(clean_until_s) is Peak.ON_PEAK
    assert weighed.decisions.peak_at(known_until_s) is Peak.UNKNOWN
    assert weigh_curve(curve, None, BY_CO2, rule).decisions.peak_at(now_s) is Peak.UNKNOWN


def test_the_inputs_of_the_settings_are_learned_apart_for_each_place(tmp_path: Path) -> None:
    feeds = FeedSettings(inputs=("open-meteo-wind", "open-meteo-sun"), place="52.5,13.4", cache=tmp_path)
    file = tmp_path / "prices_eur_per_mwh.csv"
    source, _ = build_price_source(feeds, PriceSettings(file=file))
    assert [feed.sources[0].name for _, feed in source.inputs] == ["open-meteo-wind", "open-meteo-sun"]
    moved, _ = build_price_source(replace(feeds, place="48.1,11.6"), PriceSettings(file=file))
    names = {name for each in (source, moved) for name, _ in each.inputs}
    assert len(names) == 4
    # What an input was before it was revised is known to the saved model alone.
    assert source.model is not None
    assert build_price_source(FeedSettings(cache=tmp_path), PriceSettings(file=file))[0].model is None
