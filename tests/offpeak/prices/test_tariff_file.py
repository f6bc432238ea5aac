"""Tariff files: the examples of the documentation, and one clear line for what cannot be."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.step_series import Series
from offpeak.model.zones import parse_zone
from offpeak.prices.tariff import charge_market, tariff_series
from offpeak.prices.tariff_file import parse_tariff_file, site_tariff

pytestmark = pytest.mark.quick

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HEAD = 'currency = "EUR"\nzone = "Europe/Berlin"\n'
FLAT = '[[energy]]\nprice = "100EUR/MWh"\n'


def parse(text: str):
    return parse_tariff_file(text.encode(), "tariff.toml", UTC)


def price_at(tariff, text: str, spot: float | None = None) -> float:
    at_s = int(datetime.fromisoformat(text).replace(tzinfo=tariff.calendar.zone).timestamp())
    if spot is None:
        return float(tariff_series(tariff, at_s, at_s + 900).value[0])
    market = Series(np.array([at_s]), at_s + 900, np.array([spot]), f"{tariff.currency}/MWh", "market")
    return float(charge_market(tariff, market).value[0])


@pytest.mark.parametrize(
    ("example", "when", "spot", "price"),
    [
        ("tariff-de", "2026-11-26T12:00", None, (118 + 12.1 + 20.5 + 1.1) * 1.19),
        ("tariff-de", "2026-11-28T12:00", None, (94 + 12.1 + 20.5 + 1.1) * 1.19),
        # Corpus Christi, a holiday of North Rhine-Westphalia, and Christmas Eve, a date of the file.
        ("tariff-de", "2026-06-04T12:00", None, (94 + 12.1 + 20.5 + 1.1) * 1.19),
        ("tariff-de", "2026-12-24T12:00", None, (94 + 12.1 + 20.5 + 1.1) * 1.19),
        ("tariff-us", "2026-07-02T16:00", None, 184 + 15.2),
        ("tariff-us", "2026-07-02T15:45", None, 121 + 15.2),
        # Independence Day is observed on Friday, 3 July 2026.
        ("tariff-us", "2026-07-03T16:00", None, 98 + 15.2),
        ("tariff-us", "2026-01-04T20:45", None, 139 + 15.2),
        ("tariff-spot", "2026-11-26T17:00", 80.0, 80 * 1.015 + 4.2 + 31 + 20.5),
        ("tariff-spot", "2026-11-26T05:45", -10.0, -10 * 1.015 + 4.2 + 4.5 + 20.5),
    ],
)
def test_the_price_of_the_next_mwh(example, when, spot, price):
    assert price_at(site_tariff(str(EXAMPLES / f"{example}.toml")), when, spot) == pytest.approx(price)


def test_an_unknown_market_price_stays_unknown():
    tariff = site_tariff(str(EXAMPLES / "tariff-spot.toml"))
    assert np.isnan(tariff_series(tariff, 0, 7200).value).all()


def test_the_hours_of_a_file_are_on_the_clock_of_the_site_unless_it_names_one():
    text = 'currency = "EUR"\n[[energy]]\nprice = "9EUR/MWh"\nhours = "00:00-01:00"\n[[energy]]\n'
    text += 'price = "1EUR/MWh"\nhours = "else"\n'
    berlin = parse_tariff_file(text.encode(), "tariff.toml", parse_zone("Europe/Berlin"))
    assert not berlin.names_zone
    assert price_at(berlin, "2026-07-01T00:30") == 9


WINDOW = '[[grid_fee]]\nname = "{}"\nprice = "3EUR/MWh"\nhours = "{}"\ndays = "{}"\n'


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (FLAT, "currency is missing", 'currency = "EUR"'),
        (HEAD, "energy is missing", "spot"),
        (
            HEAD + FLAT + WINDOW.format("day", "06:00-22:00", "mon-fri"),
            "grid_fee: no window covers mon-sun 00:00-06:00",
            "else",
        ),
        (
            HEAD
            + FLAT
            + WINDOW.format("day", "06:00-22:00", "mon-fri")
            + WINDOW.format("night", "22:00-06:00", "mon-fri"),
            "grid_fee: no window covers sat-sun 00:00-24:00 in jan-dec",
            "else",
        ),
        (
            HEAD + FLAT + WINDOW.format("a", "06:00-22:00", "mon-sun") + WINDOW.format("b", "21:30-06:00", "sat-sun"),
            "'a' and 'b' both cover sat-sun 21:30-22:00 in jan-dec",
            "shorten",
        ),
        (HEAD + FLAT + FLAT, "energy: 'window 1' and 'window 2' both cover mon-sun 00:00-24:00 in jan-dec", ""),
        (HEAD + FLAT.replace("EUR/", "USD/"), "price: is in USD, and the tariff in EUR", "one currency"),
        (HEAD + FLAT + 'markup = "4EUR/MWh"\n', "markup: is for the market's price", "spot"),
        (HEAD + FLAT + '[[demand]]\nprice = "120EUR/kWh"\nper = "year"\n', "unknown unit", "120EUR/kW"),
        (HEAD + FLAT + '[[demand]]\nprice = "120EUR/kW"\nper = "week"\n', "'week' is not a period", "month"),
        (HEAD + FLAT + 'months = "jan-foo"\n', "unknown month 'foo'", ""),
        (HEAD + 'holidays = ["02-30"]\n' + FLAT, "'02-30' is not a date", "12-24"),
        (HEAD + 'holidays = ["DE-XX"]\n' + FLAT, "no public holidays", ""),
        (HEAD + "vat_percent = 190\n" + FLAT, "vat_percent: 190 is out of range", "the range is 0 to 100"),
        (HEAD + "vat = 19\n" + FLAT, "vat: is not a key of a tariff", "vat_percent"),
        ("currency = EUR", "tariff.toml", "quotes"),
    ],
)
def test_a_file_that_cannot_be_is_one_clear_line(text, message, hint):
    with pytest.raises(BadInput, match=message) as problem:
        parse(text)
    assert str(problem.value).startswith("tariff.toml: ")
    assert "\n" not in str(problem.value)
    assert hint in problem.value.hint


def test_a_market_in_another_currency_is_refused():
    tariff = site_tariff(str(EXAMPLES / "tariff-spot.toml"))
    market = Series(np.array([0]), 3600, np.array([50.0]), "USD/MWh", "prices.csv")
    with pytest.raises(BadInput, match=r"is in EUR, and the prices of prices.csv are in USD/MWh"):
        charge_market(tariff, market)
