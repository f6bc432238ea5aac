"""The bill of the metered nodes: by the clock of the tariff, and what is not known is said, never counted as 0."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.prices import slot_prices
from offpeak.ledger.rows import MeterReading, Price
from offpeak.model.constants import DAY_S
from offpeak.model.time_range import TimeRange
from offpeak.predictors.site_sources import build_price_source
from offpeak.prices.bill import Bill
from offpeak.prices.peak import parse_peak_rule
from offpeak.prices.tariff import CHARGED, Tariff, price_of_market, price_of_next_mwh
from offpeak.prices.tariff_file import parse_tariff_file, site_tariff
from offpeak.services.accounts.power_bill import make_metered_bill
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import PriceLoop, PriceSection
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import FeedSettings, PriceSettings

MakeBill = Callable[..., tuple[dict[str, tuple[float, float]], list[str], Bill]]
BERLIN = ZoneInfo("Europe/Berlin")
SPOT = site_tariff(str(Path(__file__).parents[3] / "docs" / "examples" / "tariff-spot.toml"))
TWO_PRICES = """
[[energy]]
name = "high"
price = "100EUR/MWh"
hours = "06:00-22:00"
[[energy]]
name = "low"
price = "50EUR/MWh"
hours = "else"
"""


def tariff(demand: str = "", energy: str = TWO_PRICES) -> Tariff:
    text = f'currency = "EUR"\nzone = "Europe/Berlin"\n{energy}\n{demand}'
    return parse_tariff_file(text.encode(), "tariff.toml", BERLIN)


def unix_s(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=BERLIN).timestamp())


def days(first: str, after: str) -> TimeRange:
    return TimeRange(unix_s(first), unix_s(after))


@pytest.fixture
def bill(request: pytest.FixtureRequest, tmp_path: Path) -> MakeBill:
    """Return a function for the bill of a node that draws 1 kW, but these watts in quarter-hours, None: no reading."""
    keep_readings_s = getattr(request, "param", 0)

    def made(
        span: TimeRange, by: Tariff, watts: Mapping[int, float | None] | None = None, prices: tuple[Price, ...] = ()
    ) -> tuple[dict[str, tuple[float, float]], list[str], Bill]:
        url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
        ledger = Ledger(LedgerSettings(url=url, keep_readings_s=keep_readings_s))
        other = watts or {}
        at_s = [
            *range(int(span.from_unix_s), int(span.until_unix_s), 900),
            *(each for each in other if each < span.from_unix_s),
        ]
        draws = {at: other.get(at, 1000.0) for at in sorted(at_s)}
        ledger.write_readings(
            [MeterReading("n1", "dcmi", "total", at, at + 900, draw, node="n1") for at, draw in draws.items() if draw]
        )
        ledger.write_prices(prices)
        ledger.settle()
        assert ledger.close() == 0
        with open_ledger(url) as connection:
            found, gaps = make_metered_bill(connection, span, by)
        return {line.name: (round(line.quantity, 6), line.cost) for line in found.lines}, gaps, found

    return made


@pytest.mark.parametrize(("day", "low_h"), [("2026-03-29", 7), ("2026-10-25", 9), ("2026-10-26", 8)])
def test_days_of_23_and_25_hours_have_their_own_hours(bill: MakeBill, day: str, low_h: int) -> None:
    after = f"{day[:-2]}{int(day[-2:]) + 1}"
    lines, gaps, found = bill(days(day, after), tariff())
    assert lines == {"energy high": (16.0, 1.6), "energy low": (low_h, round(low_h * 0.05, 2))}
    assert (gaps, found.total) == ([], round(1.6 + low_h * 0.05, 2))


@pytest.mark.parametrize("bill", [DAY_S, 0], indirect=True, ids=["readings kept", "minutes only"])
def test_a_gap_over_the_peak_is_said_and_no_zero(bill: MakeBill) -> None:
    """The agent was down from 17:00 to 19:00, when the load may have been highest."""
    down = dict.fromkeys(range(unix_s("2026-11-10T17:00"), unix_s("2026-11-10T19:00"), 900))
    demand = '[[demand]]\nprice = "8EUR/kW"\nper = "month"'
    high = {unix_s("2026-11-12T09:15"): 3000.0}
    lines, gaps, found = bill(days("2026-11-01", "2026-12-01"), tariff(demand), down | high)
    assert lines["energy high"] == (30 * 16 - 2 + 0.5, 47.85)
    assert lines["demand 2026-11"] == (3.0, 24.0)
    assert found.peaks[0].at_s == unix_s("2026-11-12T09:15")
    assert found.unknown_s == 7200
    assert gaps == [
        "no reading of a node for 8 quarter-hours, first at 2026-11-10 17:00: that energy is in no position",
        "demand 2026-11: a higher quarter-hour may be among the 8 quarter-hours without a reading",
    ]


def test_a_time_before_the_first_reading_is_a_gap(bill: MakeBill) -> None:
    before = dict.fromkeys(range(unix_s("2026-11-01"), unix_s("2026-11-02"), 900))
    lines, gaps, _ = bill(days("2026-11-01", "2026-11-03"), tariff(), before)
    assert lines["energy high"] == (16.0, 1.6)
    assert gaps[0].startswith("no reading of a node for 96 quarter-hours, first at 2026-11-01 00:00")


def test_the_month_has_its_part_of_the_years_peak_in_the_windows_of_atypical_use(bill: MakeBill) -> None:
    demand = '[[demand]]\nname = "peak"\nprice = "120EUR/kW"\nper = "year"\n[[demand.window]]\nhours = "17:00-19:30"\n'
    demand += 'days = "mon-fri"\nmonths = "jan,feb,dec"'
    watts = {unix_s("2026-02-02T17:00"): 4000.0, unix_s("2026-02-02T16:45"): 9000.0, unix_s("2026-03-05T17:15"): 8000.0}
    lines, gaps, found = bill(days("2026-03-01", "2026-04-01"), tariff(demand), watts)
    assert lines["peak 2026"] == (4.0, round(4 * 120 * (31 * 24 - 1) / (365 * 24), 2)), "March has an hour less"
    assert found.peaks[0].at_s == unix_s("2026-02-02T17:00")
    # 42 working days of January and February have ten quarter-hours each; one was measured.
    assert gaps == ["peak 2026: a higher quarter-hour may be among the 419 quarter-hours without a reading"]


def test_a_tariff_that_changed_in_the_month_is_said(bill: MakeBill) -> None:
    flat = tariff(energy='[[energy]]\nprice = "100EUR/MWh"')
    change = unix_s("2026-11-16")
    rows = tuple(
        Price(at, at + 3600.0, 80.0 if at < change else 100.0, "EUR", "tariff")
        for at in range(unix_s("2026-11-01"), unix_s("2026-12-01"), 3600)
    )
    _, gaps, _ = bill(days("2026-11-01", "2026-12-01"), flat, None, rows)
    other = "another price in the ledger than tariff.toml for 1,440 quarter-hours, first at 2026-11-01 00:00"
    assert gaps == [f"{other}: if another tariff applied then, bill that period separately"]


def test_prices_in_two_currencies_matter_to_the_market_only(bill: MakeBill) -> None:
    span, middle = days("2026-11-01", "2026-11-03"), unix_s("2026-11-02")
    rows = (
        Price(span.from_unix_s, middle, 100.0, "EUR", "published"),
        Price(middle, span.until_unix_s, 100.0, "USD", "published"),
    )
    lines, gaps, _ = bill(span, tariff(), None, rows)
    assert (lines["energy high"], gaps) == ((32.0, 3.2), [])
    with pytest.raises(BadInput, match="in EUR and USD"):
        bill(span, SPOT, None, rows)


def test_the_market_of_another_currency_is_refused(bill: MakeBill) -> None:
    span = days("2026-11-01", "2026-11-02")
    with pytest.raises(BadInput, match="is in EUR, and the market in USD"):
        bill(span, SPOT, None, (Price(span.from_unix_s, span.until_unix_s, 100.0, "USD", "published"),))


def test_a_bill_at_the_market_has_the_prices_behind_those_of_the_ledger(bill: MakeBill) -> None:
    span = days("2026-11-02", "2026-11-04")
    start_s = np.arange(int(span.from_unix_s), int(span.until_unix_s), 3600)
    market = np.linspace(-40, 200, len(start_s))
    charged = price_of_next_mwh(SPOT, start_s, market)
    rows = tuple(
        Price(float(at), at + 3600.0, price, "EUR", f"published{CHARGED}")
        for at, price in zip(start_s.tolist(), charged.tolist(), strict=True)
        if at < start_s[40]
    )
    lines, gaps, found = bill(span, SPOT, None, rows)
    (window,) = SPOT.energy.windows
    (energy,) = (cost for name, (_, cost) in lines.items() if name.startswith("energy"))
    assert energy == pytest.approx((window.factor * market[:40] + window.per_mwh).sum() / 1000, abs=0.01)
    assert found.unpriced_kwh == pytest.approx(8.0)
    assert "no price of the market for 32 quarter-hours, first at 2026-11-03 16:00: 8.00 kWh cost nothing here" in gaps


def test_prices_that_were_recorded_without_a_tariff_are_those_of_the_market(bill: MakeBill) -> None:
    span, middle = days("2026-11-02", "2026-11-04"), unix_s("2026-11-03")
    charged = tariff(energy='vat_percent = 19\n[[energy]]\nprice = "spot"\nfactor = 1.08')
    rows = (
        Price(span.from_unix_s, middle, 100.0, "EUR", "published"),
        Price(middle, span.until_unix_s, 1.08 * 1.19 * 100.0, "EUR", f"published{CHARGED}"),
    )
    _, gaps, found = bill(span, charged, None, rows)
    assert found.total == pytest.approx(48 * 0.1 * 1.08 * 1.19, abs=0.01)
    assert gaps == [
        "prices that were recorded without a tariff for 96 quarter-hours, first at 2026-11-02 00:00: they count as "
        "those of the market"
    ]


@pytest.mark.parametrize("has_tariff", [True, False])
def test_the_agent_records_whether_a_tariff_charged_a_price(tmp_path: Path, has_tariff: bool) -> None:
    begin_s = unix_s("2026-11-02")
    file, example = tmp_path / "p_eur_per_mwh.csv", Path(__file__).parents[3] / "docs" / "examples" / "tariff-spot.toml"
    hours = (datetime.fromtimestamp(begin_s + 3600 * hour, UTC) for hour in range(96))
    file.write_text("utc,price\n" + "".join(f"{hour:%Y-%m-%dT%H:%MZ},100\n" for hour in hours))
    prices = PriceSettings(file, tariff=str(example) if has_tariff else None)
    source, zone = build_price_source(FeedSettings(prices=("file",), cache=tmp_path / "cache"), prices)
    section = PriceSection(source, None, parse_peak_rule("day-mean", zone=zone), zone, 3600)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    asyncio.run(PriceLoop(lambda: section, ledger, ProblemLog(), lambda: begin_s + 3600.0).round())
    assert ledger.close() == 0
    with open_ledger(ledger.settings.url) as connection:
        found = slot_prices(connection, np.array([begin_s + 7200.0]), 900)
    charged = price_of_next_mwh(SPOT, np.array([begin_s + 7200]), 100.0)
    assert (found.charged, found.price_per_mwh) == (has_tariff, pytest.approx(charged if has_tariff else 100.0))


@given(st.lists(st.floats(-500, 4000), min_size=1, max_size=50))
def test_the_price_of_the_market_is_found_again(market: list[float]) -> None:
    start_s = unix_s("2026-10-24") + 3600 * np.arange(len(market))
    charged = price_of_next_mwh(SPOT, start_s, np.array(market))
    assert price_of_market(SPOT, start_s, charged) == pytest.approx(np.array(market), abs=1e-6)


def test_a_time_without_a_whole_quarter_hour_has_no_bill(bill: MakeBill) -> None:
    begin = unix_s("2026-11-01")
    with pytest.raises(BadInput, match="no whole quarter-hour"):
        bill(TimeRange(begin, begin + 600), tariff())
