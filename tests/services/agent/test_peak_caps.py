"""The soft caps of peak shaving: which quarter-hours they cover, how high they are, and whom they hold."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.prices.tariff import Tariff
from offpeak.prices.tariff_file import parse_tariff_file
from offpeak.services.agent.demand_response import PEAK_CAP, PeakLoop, peak_caps
from offpeak.services.agent.loop import ProblemLog
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
HEAD = 'currency = "EUR"\nzone = "Europe/Berlin"\n[[energy]]\nprice = "90EUR/MWh"\n'
YEARLY = HEAD + '[[demand]]\nprice = "120EUR/kW"\nper = "year"\n'
EVENING = YEARLY + '[[demand.window]]\ndays = "mon-fri"\nhours = "17:00-19:30"\n'
PLAN = PlanSettings(peak_target_w=300e3, peak_wait_s=43_200)


def tariff(text: str) -> Tariff:
    return parse_tariff_file(text.encode(), "tariff.toml", UTC)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


def test_the_cap_is_the_target_or_the_highest_quarter_hour_that_is_paid():
    demand = tariff(YEARLY)
    now_s = at("2026-11-26T10:07")
    (cap,) = peak_caps(demand, {}, PLAN, now_s)
    assert (cap.cap_w, cap.source, cap.longest_wait_s) == (300_000, PEAK_CAP, 43_200)
    assert cap.from_s == at("2026-11-26T10:00")
    assert 43_200 <= cap.until_s - now_s <= 86_400
    (higher,) = peak_caps(demand, {demand.demand[0]: 321_500.4}, PLAN, now_s)
    assert higher.cap_w == 321_500
    assert peak_caps(demand, {}, replace(PLAN, peak_target_w=None), now_s) == []
    assert peak_caps(tariff(HEAD), {}, PLAN, now_s) == []


@pytest.mark.parametrize(
    ("now", "spans"),
    [
        ("2026-11-26T10:00", ("2026-11-26T17:00", "2026-11-26T19:30")),
        ("2026-11-26T18:20", ("2026-11-26T18:15", "2026-11-26T19:30")),
        ("2026-11-28T18:20", None),
        # Clocks go back on Sunday, 25 October; the cap of Monday is seen from Sunday evening.
        ("2026-10-25T20:00", ("2026-10-26T17:00", "2026-10-26T19:30")),
    ],
)
def test_the_cap_lasts_while_quarter_hours_count(now, spans):
    caps = peak_caps(tariff(EVENING), {}, PLAN, at(now))
    seen = [(cap.from_s, cap.until_s) for cap in caps]
    if spans is None:
        assert seen == []
    elif seen:
        assert seen[0][0] == at(spans[0])
        assert seen[0][1] <= at(spans[1])


def test_a_cap_ends_with_the_period_of_its_charge():
    (cap,) = peak_caps(tariff(YEARLY.replace('"year"', '"month"')), {}, PLAN, at("2026-11-30T20:00"))
    assert cap.until_s == at("2026-12-01T00:00")


class ShavingSite:
    """The loop with a ledger, on a clock of its own."""

    def __init__(self, folder: Path, text: str) -> None:
        (folder / "tariff.toml").write_text(text)
        url = f"sqlite:///{folder}/ledger.sqlite"
        prices = PriceSettings(tariff=str(folder / "tariff.toml"))
        self.settings = Settings(prices=prices, plan=PLAN, ledger=LedgerSettings(url=url))
        self.ledger, self.problems, self.now_s = (
            Ledger(self.settings.ledger),
            ProblemLog(),
            float(at("2026-11-26T12:00")),
        )
        self.loop = PeakLoop(lambda: (self.settings, UTC), self.problems, lambda: self.now_s)

    def measure(self, begin: str, watts: float) -> None:
        rows = [
            MeterReading(f"bmc of {node}", "dcmi", "total", at(begin), at(begin) + 900, watts / 2, node=node)
            for node in ("n1", "n2")
        ]
        self.ledger.write_readings(rows)
        self.ledger.settle()

    def cap_w(self) -> list[int]:
        asyncio.run(self.loop.round())
        return [cap.cap_w for cap in self.loop.caps()]


def test_the_highest_quarter_hour_of_the_year_comes_from_the_ledger(tmp_path):
    site = ShavingSite(tmp_path, YEARLY)
    assert site.loop.caps() == ()
    site.measure("2026-03-02T09:00", 310e3)
    site.measure("2026-11-26T11:00", 305e3)
    assert site.cap_w() == [310_000]
    site.measure("2026-11-26T11:30", 320e3)
    assert site.cap_w() == [320_000]
    # A new year begins at the target, and keeps nothing of the old one.
    site.now_s = float(at("2027-01-01T00:30"))
    assert site.cap_w() == [300_000]
    site.ledger.close()


def test_a_target_without_a_demand_charge_is_reported(tmp_path):
    site = ShavingSite(tmp_path, HEAD)
    assert site.cap_w() == []
    assert "plan.peak_target has no effect: the tariff has no [[demand]]" in "; ".join(site.problems.problems)
    site.ledger.close()
