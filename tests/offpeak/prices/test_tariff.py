"""Tariffs: what the text means, and the local hours on days of 23 and 25 hours."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpeak.errors import BadInput, BadPrices
from offpeak.prices import ASSUMED_TARIFF
from offpeak.prices.tariff import parse_tariff, tariff_series
from offpeak.prices.tariff_file import site_tariff

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
PAPER = "on=90EUR/MWh,off=30EUR/MWh"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


def hours_on(text: str, from_day: str, until_day: str) -> float:
    series = tariff_series(parse_tariff(text), at(from_day), at(until_day))
    return float(series.length_s[series.value == 90].sum()) / 3600


def test_the_customary_hours():
    tariff = parse_tariff(PAPER)
    assert tariff.currency == "EUR"
    series = tariff_series(tariff, 0, 2 * 86400)
    assert series.start_s.tolist() == [0, 9 * 3600, 23 * 3600, 33 * 3600, 47 * 3600]
    assert series.value.tolist() == [30, 90, 30, 90, 30]
    assert (series.end_s, series.unit, series.source) == (172800, "EUR/MWh", tariff.source)


def test_hours_that_nobody_declares_are_named():
    tariff = parse_tariff(PAPER)
    assert tariff.source == f"{PAPER} (hours=09:00-23:00 assumed: none are given)"
    assert tariff.description == "90 EUR/MWh from 09:00 to 23:00 every day, clock of UTC, else 30 EUR/MWh"
    assert "from 09:00 to 23:00 every day, clock of Europe/Berlin, else" in parse_tariff(PAPER, BERLIN).description
    whole = parse_tariff("on=0.21EUR/kWh,off=0.14EUR/kWh,hours=06:00-22:00,days=mon-fri,holidays=DE,zone=Europe/Berlin")
    assert (whole.assumed, whole.source) == ("", whole.text)
    assert whole.description == (
        "210 EUR/MWh from 06:00 to 22:00 mon-fri but holidays of DE, clock of Europe/Berlin, else 140 EUR/MWh"
    )


def test_a_tariff_that_nobody_declares_is_named_as_assumed():
    assumed = site_tariff(None)
    assert {window.per_mwh for window in assumed.energy.windows} == {90, 30}
    assert assumed.assumed == "assumed, as no prices are given: --prices FILE or --tariff RULE"
    assert assumed.source == f"{ASSUMED_TARIFF} ({assumed.assumed})"
    declared = site_tariff(ASSUMED_TARIFF)
    assert (declared.assumed, declared.source) == ("", ASSUMED_TARIFF)


@pytest.mark.parametrize(("day", "next_day"), [("2024-03-31", "2024-04-01"), ("2024-10-27", "2024-10-28")])
def test_local_hours_on_days_of_23_and_25_hours(day, next_day):
    day_h = 23 if day == "2024-03-31" else 25
    zone = ",zone=Europe/Berlin"
    assert hours_on(f"{PAPER}{zone}", day, next_day) == 14
    assert hours_on(f"{PAPER},hours=00:00-06:00{zone}", day, next_day) == 6 + day_h - 24
    assert hours_on(f"{PAPER},hours=22:00-06:00{zone}", day, next_day) == 8 + day_h - 24
    assert hours_on(f"{PAPER},hours=00:00-24:00{zone}", day, next_day) == day_h


def test_hours_are_those_of_the_clock_that_is_given_unless_the_tariff_names_one():
    assert parse_tariff(PAPER, BERLIN).hours == parse_tariff(f"{PAPER},zone=Europe/Berlin").hours
    assert parse_tariff(f"{PAPER},zone=UTC", BERLIN).hours == parse_tariff(PAPER).hours


def test_working_days_and_holidays():
    week = ("2024-04-29", "2024-05-06")
    assert hours_on(f"{PAPER},days=mon-fri,zone=Europe/Berlin", *week) == 5 * 14
    assert hours_on(f"{PAPER},days=mon-fri,holidays=DE,zone=Europe/Berlin", *week) == 4 * 14


def test_a_flat_tariff_is_one_interval():
    assert len(tariff_series(parse_tariff(f"{PAPER},hours=00:00-24:00"), 5, 10**7)) == 1


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (f"{PAPER},hous=09:00-23:00", "unknown key 'hous'", "did you mean hours?"),
        ("on=90EUR/MWh", "needs both", "off=30EUR/MWh"),
        ("0.2EUR/kWh", "needs both", "one price for all hours: on=0.2EUR/kWh,off=0.2EUR/kWh"),
        ("on=90EUR/MWh,off=30USD/MWh", "mixes EUR and USD", "one currency"),
        ("on=90,off=30", "no unit", "EUR/MWh"),
        (f"{PAPER},holidays=XX", "no public holidays", ""),
        (f"{PAPER},zone=Berlin", "unknown time zone", ""),
    ],
)
def test_invalid_tariff_is_refused(text, message, hint):
    with pytest.raises(BadInput, match=message) as problem:
        parse_tariff(text)
    assert hint in problem.value.hint
    assert problem.value.hint


def test_no_time_at_all():
    with pytest.raises(BadPrices, match="no time"):
        tariff_series(parse_tariff(PAPER), 5, 5)


@settings(deadline=None)
@given(
    st.integers(0, 2 * 10**9), st.integers(1, 60 * 86400), st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"])
)
def test_prices_alternate_and_cover_all_that_was_queried(from_s, length_s, zone):
    series = tariff_series(parse_tariff(f"{PAPER},days=mon-fri,zone={zone}"), from_s, from_s + length_s)
    assert (int(series.start_s[0]), series.end_s) == (from_s, from_s + length_s)
    assert set(series.value.tolist()) <= {30.0, 90.0}
    assert (series.value[1:] != series.value[:-1]).all()
