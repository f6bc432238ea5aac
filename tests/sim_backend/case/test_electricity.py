"""Prices and carbon intensity on a log's time: files, tariffs, what is continued and what is said of it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput, BadPrices
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.step_series import Series, value_at
from offpeak.model.weighing import BY_CO2
from offpeak.prices.alignment import LogSpan
from offpeak.prices.peak import AboveDayMean, Peak
from offpeak.prices.tariff import parse_tariff, tariff_series
from offpeak.settings.replay import CarbonSettings, PriceSettings
from offpeak.sim_backend.case.electricity import AlignedSeries, ReplayPrices, carbon_of, peak_times, prices_of

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
WEEKDAYS = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00,days=mon-fri,holidays=DE,zone=Europe/Berlin"


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def log_of(begin: str | None, *, days: float, zone=UTC) -> LogSpan:
    return LogSpan(0, round(days * DAY_S), unix(begin) if begin else None, zone)


def hours_file(folder: Path, name: str, begin: str, values: list[float | None]) -> Path:
    path = folder / name
    start = unix(begin)
    times = [datetime.fromtimestamp(start + 3600 * hour, UTC).isoformat() for hour in range(len(values))]
    rows = [f"{time},{'' if value is None else value}\n" for time, value in zip(times, values, strict=True)]
    path.write_text("utc,value\n" + "".join(rows), encoding="utf-8")
    return path


def two_days(folder: Path, values: list[float | None] | None = None) -> PriceSettings:
    given = [float(hour) for hour in range(48)] if values is None else values
    return PriceSettings(file=hours_file(folder, "p_eur_per_mwh.csv", "2023-01-02T00:00Z", given))


def same_prices(aligned: AlignedSeries, expected: Series, from_s: int, until_s: int) -> bool:
    at_s = np.arange(from_s, until_s, 900)
    return np.array_equal(value_at(aligned.series, at_s), value_at(expected, at_s))


def test_a_tariff_keeps_the_logs_own_dates() -> None:
    prices = prices_of(log_of("2023-05-03T10:00+02:00", days=3, zone=BERLIN), PriceSettings(), None)
    assert prices.aligned.offset_s == unix("2023-05-03T10:00+02:00")
    assert prices.aligned.notes == ("log mapped to its own dates, from 2023-05-03",)
    assert prices.aligned.series.currency == "EUR"


def test_a_tariffs_hours_are_those_of_the_logs_clock() -> None:
    prices = prices_of(log_of("2023-05-03T00:00+02:00", days=1, zone=BERLIN), PriceSettings(), None)
    nine, eleven_at_night = unix("2023-05-03T09:00+02:00"), unix("2023-05-03T23:00+02:00")
    at_s = np.array([nine - 1, nine, eleven_at_night - 1, eleven_at_night])
    assert value_at(prices.aligned.series, at_s).tolist() == [30, 90, 90, 30]


def test_a_log_without_a_date_begins_on_a_monday_of_the_tariffs_clock() -> None:
    prices = prices_of(log_of(None, days=3), PriceSettings(tariff=WEEKDAYS), None)
    assert datetime.fromtimestamp(prices.aligned.offset_s, BERLIN) == datetime(2024, 1, 1, tzinfo=BERLIN)
    assert prices.aligned.notes == ("log without a date mapped to a Monday, 2024-01-01",)


@pytest.mark.parametrize(
    ("start", "begin"), [("2023-01-09", "2023-01-09T16:40"), ("2023-01-09T06:00", "2023-01-09T06:00")]
)
def test_start_lays_a_tariff_as_it_lays_prices_a_date_keeps_the_clock_time(
    start: str, begin: str, tmp_path: Path
) -> None:
    log = log_of("1996-09-23T16:40+02:00", days=3, zone=BERLIN)
    file = hours_file(tmp_path, "p_eur_per_mwh.csv", "2023-01-01T00:00Z", [1.0] * 24 * 30)
    for settings in (PriceSettings(), PriceSettings(file=file)):
        aligned = prices_of(log, settings, start).aligned
        begins = datetime.fromtimestamp(aligned.offset_s + log.first_s, BERLIN)
        assert begins == datetime.fromisoformat(begin).replace(tzinfo=BERLIN)
        assert "as asked" in aligned.notes[0]


@given(st.floats(0.1, 900))
def test_a_tariff_goes_on_with_its_own_days_and_holidays(days: float) -> None:
    aligned = prices_of(
        log_of("2023-12-01T00:00+01:00", days=2, zone=BERLIN), PriceSettings(tariff=WEEKDAYS), None
    ).aligned
    later_s = round(days * DAY_S)
    begin, until = aligned.offset_s, aligned.offset_s + later_s
    assert same_prices(aligned.until(later_s), tariff_series(parse_tariff(WEEKDAYS), begin, until), begin, until)
    assert aligned.until(later_s).series.end_s >= until
    assert aligned.notes_until(later_s) == aligned.notes


def test_a_tariff_is_repeated_after_twenty_years() -> None:
    aligned = prices_of(
        log_of("2023-12-01T00:00+01:00", days=2, zone=BERLIN), PriceSettings(tariff=WEEKDAYS), None
    ).aligned
    assert aligned.until(68 * 365 * DAY_S).series.end_s == aligned.offset_s + 68 * 365 * DAY_S
    assert aligned.notes_until(68 * 365 * DAY_S)[1].endswith("from there the last 52 weeks are repeated")


def test_a_file_that_is_long_enough_needs_no_note(tmp_path: Path) -> None:
    aligned = prices_of(log_of("2023-01-02T00:00Z", days=1), two_days(tmp_path), None).aligned
    assert aligned.until(2 * DAY_S).series == aligned.series
    assert aligned.notes_until(2 * DAY_S) == aligned.notes == ("log mapped to its own dates, from 2023-01-02",)


def test_a_file_that_ends_before_is_repeated_and_reported_only_if_needed(tmp_path: Path) -> None:
    aligned = prices_of(log_of("2023-01-02T00:00Z", days=3), two_days(tmp_path), None).aligned
    longer = aligned.until(5 * DAY_S)
    assert value_at(longer.series, np.array([aligned.offset_s + 4 * DAY_S + 7 * 3600])).tolist() == [7.0]
    assert aligned.notes_until(2 * DAY_S + 1)[1:] == ("prices end 2023-01-04, from there the last 2 days are repeated",)
    assert aligned.notes_until(2 * DAY_S)[1:] == ()


def test_start_chooses_the_date_within_a_file(tmp_path: Path) -> None:
    log = log_of("1996-09-23T16:40Z", days=0.1)
    aligned = prices_of(log, two_days(tmp_path), "2023-01-03").aligned
    assert aligned.offset_s == unix("2023-01-03T16:40Z")
    with pytest.raises(BadPrices, match="2019-01-03 lies outside the prices"):
        prices_of(log, two_days(tmp_path), "2019-01-03")
    with pytest.raises(BadPrices, match="cannot read the date 'soon'"):
        prices_of(log, two_days(tmp_path), "soon")


def test_gaps_stay_unless_they_are_to_be_filled(tmp_path: Path) -> None:
    values = [float(hour) for hour in range(WEEK_S // 3600)] + [None, 1.0]
    log = log_of("2023-01-02T00:00Z", days=1)
    settings = two_days(tmp_path, values)
    assert prices_of(log, settings, None).aligned.series.gaps() == (
        (unix("2023-01-09T00:00Z"), unix("2023-01-09T01:00Z")),
    )
    filled = prices_of(log, replace(settings, fill_gaps=True), None).aligned
    assert filled.series.gaps() == ()
    assert filled.notes[1:] == ("1 h of gaps filled from the same hour of the latest known week before each",)
    assert value_at(filled.series, np.array([unix("2023-01-09T00:30Z")])).tolist() == [0.0]


def test_no_carbon_no_constant_and_a_constant() -> None:
    log = log_of("2023-01-02T00:00Z", days=1)
    aligned = prices_of(log, PriceSettings(), None).aligned
    assert carbon_of(log, CarbonSettings(), aligned) is None
    assert carbon_of(log, CarbonSettings("0.4kg/kWh"), aligned) == 400.0
    with pytest.raises(BadInput, match="carbon intensity: '400' has no unit") as problem:
        carbon_of(log, CarbonSettings("400"), aligned)
    assert "400g/kWh" in problem.value.hint


def test_carbon_lies_on_the_dates_of_the_prices(tmp_path: Path) -> None:
    carbon = hours_file(tmp_path, "c_g_per_kwh.csv", "2023-01-01T00:00Z", [300.0 + hour for hour in range(72)])
    log = log_of("1996-09-23T00:00Z", days=1)
    prices = prices_of(log, two_days(tmp_path), None).aligned
    aligned = carbon_of(log, CarbonSettings(str(carbon)), prices)
    assert isinstance(aligned, AlignedSeries)
    assert aligned.offset_s == prices.offset_s == unix("2023-01-02T00:00Z")
    assert aligned.notes == ("carbon intensity: log mapped to its own dates, from 2023-01-02",)
    note = "the carbon intensity ends 2023-01-04, from there the last 3 days are repeated"
    assert aligned.notes_until(3 * DAY_S) == (*aligned.notes, note)


def test_carbon_of_other_years_keeps_weekday_and_season(tmp_path: Path) -> None:
    carbon = hours_file(tmp_path, "c_g_per_kwh.csv", "2021-01-01T00:00Z", [300.0] * (365 * 24))
    log = log_of("2023-01-02T00:00Z", days=1)
    aligned = carbon_of(log, CarbonSettings(str(carbon)), prices_of(log, two_days(tmp_path), None).aligned)
    assert isinstance(aligned, AlignedSeries)
    assert aligned.offset_s == unix("2021-01-04T00:00Z")
    assert aligned.notes == ("carbon intensity: log of 2023-01-02 mapped to 2021-01-04 (same weekday and season)",)


def test_gaps_of_the_carbon_intensity_are_filled_and_reported(tmp_path: Path) -> None:
    values = [300.0] * (WEEK_S // 3600) + [None, 400.0]
    carbon = hours_file(tmp_path, "c_g_per_kwh.csv", "2023-01-02T00:00Z", values)
    log = log_of("2023-01-02T00:00Z", days=1)
    aligned = carbon_of(log, CarbonSettings(str(carbon)), prices_of(log, two_days(tmp_path), None).aligned)
    assert isinstance(aligned, AlignedSeries)
    assert aligned.series.gaps() == ()
    filled = "1 h of gaps filled from the same hour of the latest known week before each"
    assert aligned.notes[1:] == (f"carbon intensity: {filled}",)


def test_gaps_without_an_earlier_week_stay_and_are_reported(tmp_path: Path) -> None:
    carbon = hours_file(tmp_path, "c_g_per_kwh.csv", "2023-01-02T00:00Z", [300.0, None, None, 400.0] * 12)
    log = log_of("2023-01-02T00:00Z", days=1)
    aligned = carbon_of(log, CarbonSettings(str(carbon)), prices_of(log, two_days(tmp_path), None).aligned)
    assert isinstance(aligned, AlignedSeries)
    left = "24 h of gaps stay, as no week before them is known: they are in no emission"
    assert aligned.notes[1:] == (f"carbon intensity: {left}",)


def test_prices_are_no_carbon_intensity_and_the_other_way_round(tmp_path: Path) -> None:
    log = log_of("2023-01-02T00:00Z", days=1)
    prices = two_days(tmp_path)
    carbon = hours_file(tmp_path, "c_g_per_kwh.csv", "2023-01-02T00:00Z", [300.0] * 48)
    with pytest.raises(BadPrices, match=r"c_g_per_kwh\.csv: holds a carbon intensity, no prices"):
        prices_of(log, replace(prices, file=carbon), None)
    with pytest.raises(BadPrices, match="holds EUR/MWh, no carbon intensity"):
        carbon_of(log, CarbonSettings(str(prices.file)), prices_of(log, prices, None).aligned)


@given(st.lists(st.sampled_from([1.0, 5.0, float("nan")]), min_size=1, max_size=72), st.integers(-(10**6), 10**6))
def test_the_state_changes_at_every_peak_time(values: list[float], offset_s: int) -> None:
    start_s = np.arange(len(values)) * 3600
    series = Series(start_s, 3600 * len(values), np.array(values), "EUR/MWh", "test")
    peaks = peak_times(ReplayPrices(AlignedSeries(series, offset_s, UTC, ()), AboveDayMean(UTC)))
    assert peaks.at_s[0] == -offset_s
    assert (np.diff(peaks.at_s) > 0).all()
    assert (np.diff(peaks.peak) != 0).all()
    state = peaks.peak[np.searchsorted(peaks.at_s, start_s - offset_s, side="right") - 1]
    assert ((state == Peak.UNKNOWN) == np.isnan(values)).all()
    assert not (state[np.array(values) == 1.0] == Peak.ON_PEAK).any()


def test_by_co2_the_peaks_are_those_of_the_intensity_on_its_own_clock() -> None:
    hours, day = np.arange(24) * 3600, 24 * 3600
    price = AlignedSeries(Series(hours, day, np.arange(24.0), "EUR/MWh", "test"), 0, UTC, ())
    year_s = 364 * DAY_S
    values = np.where(np.arange(24) < 6, 500.0, 100.0)
    carbon = AlignedSeries(Series(hours + year_s, day + year_s, values, "g/kWh", "test"), year_s, UTC, ())
    peaks = peak_times(ReplayPrices(price, AboveDayMean(UTC), BY_CO2), carbon)
    assert peaks.at_s.tolist() == [0, 6 * 3600]
    assert peaks.peak.tolist() == [Peak.ON_PEAK, Peak.OFF_PEAK]
    constant = peak_times(ReplayPrices(price, AboveDayMean(UTC), BY_CO2), 400.0)
    assert constant.peak.tolist() == [Peak.OFF_PEAK]


def test_a_tariffs_peaks_are_its_hours() -> None:
    peaks = peak_times(prices_of(log_of("2023-01-02T00:00Z", days=1), PriceSettings(), None))
    clock_h = peaks.at_s % DAY_S / 3600
    assert clock_h[peaks.peak == Peak.ON_PEAK].tolist()[-1] == 9
    assert set(clock_h[1:][peaks.peak[1:] == Peak.OFF_PEAK]) == {23}
