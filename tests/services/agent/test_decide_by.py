"""What the agent orders the queue by: the price, CO2, or both; what it pays stays the price."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from queue_site import a_job, plain_cluster

from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import HOUR_S
from offpeak.model.weighing import CO2_UNIT, parse_weighing
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.queue_plan import plan_queue
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.predictors.site_sources import build_carbon_source, build_price_source
from offpeak.prices.peak import Peak, parse_peak_rule
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import ClusterObservation, PriceLoop, PriceSection
from offpeak.services.agent.queue_loop import queue_facts
from offpeak.services.agent.site_context import make_site_context
from offpeak.settings.agent import HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import CarbonSettings, FeedSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.ui.agent.status import LocalClock, price_text

pytestmark = pytest.mark.quick

NOW_S = int(datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp())
PRICES = PriceSettings(tariff="on=120EUR/MWh,off=40EUR/MWh,hours=06:00-20:00,zone=UTC")
RULES = QueueRules("greedy", 20, 24 * HOUR_S, 100, 72 * HOUR_S, UTC)


def read_loop(folder: Path, decide_by: str, source: str | None = None, *, now_s: int = NOW_S) -> PriceLoop:
    """Return the price loop after a round; CO2 is high from midnight to 6:00 only."""
    hours = range(NOW_S - 12 * HOUR_S, NOW_S + 84 * HOUR_S, HOUR_S)
    rows = [
        f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ},{600 if at // HOUR_S % 24 < 6 else 100}" for at in hours
    ]
    file = folder / "c_g_per_kwh.csv"
    file.write_text("\n".join(["utc,carbon", *rows]) + "\n")
    carbon = build_carbon_source(FeedSettings(cache=folder / "cache"), CarbonSettings(source or str(file)))
    prices, zone = build_price_source(FeedSettings(cache=folder / "cache"), PRICES)
    section = PriceSection(
        prices, carbon, parse_peak_rule("day-mean", zone=zone), zone, 24 * HOUR_S, parse_weighing(decide_by)
    )
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
    loop = PriceLoop(lambda: section, ledger, ProblemLog(), lambda: float(now_s))
    asyncio.run(loop.round())
    ledger.close()
    return loop


def facts_of(loop: PriceLoop, *jobs: object, draws: dict[str, float] | None = None, now_s: int = NOW_S) -> QueueFacts:
    traits = SchedulerTraits("slurm", "22.05", Ranking.VALUE, power_saving=True, boot_s=60, shared_nodes=False)
    view = SchedulerView(now_s, tuple(jobs), (), ())  # type: ignore[arg-type]
    facts = queue_facts(ClusterObservation(view, traits, loop.curve), draws={}, run_s={})
    return replace(facts, node_power_w=draws or {})


@pytest.mark.parametrize(
    ("decide_by", "peak", "unit"),
    [
        ("price", Peak.ON_PEAK, "EUR/MWh"),
        ("co2", Peak.OFF_PEAK, CO2_UNIT),
        ("price+co2:10", Peak.ON_PEAK, "EUR+CO2/MWh"),
        ("price+co2:900", Peak.OFF_PEAK, "EUR+CO2/MWh"),
    ],
)
def test_the_class_of_the_hour_is_that_of_what_decides(tmp_path: Path, decide_by: str, peak: Peak, unit: str) -> None:
    loop = read_loop(tmp_path, decide_by)
    facts = facts_of(loop)
    assert facts.prices is not None
    assert (facts.peak, facts.prices.unit) == (peak, unit)
    status = loop.status(NOW_S)
    assert (status.now, status.unit, status.on_peak) == (120.0, "EUR/MWh", peak is Peak.ON_PEAK)
    assert {slot.price for slot in loop.slots} == {40.0, 120.0}


def test_status_names_what_decides(tmp_path: Path) -> None:
    clock = LocalClock(NOW_S, UTC)
    by_price, by_co2 = (price_text(read_loop(tmp_path, by).status(NOW_S), clock) for by in ("price", "co2"))
    assert "on-peak until 20:00" in by_price
    assert "120.00 EUR/MWh, off-peak by CO2 until" in by_co2


def test_jobs_are_ordered_by_co2(tmp_path: Path) -> None:
    at_night = NOW_S - 12 * HOUR_S
    loop = read_loop(tmp_path, "co2")
    assert loop.curve is not None
    jobs = (a_job(1, submit_s=at_night), a_job(2, submit_s=at_night))
    facts = facts_of(loop, *jobs, draws={"1": 100.0, "2": 400.0})
    facts = replace(facts, cluster=plain_cluster(jobs))
    plan = plan_queue(facts, RULES)
    assert set(plan.rank) == {"1", "2"}, "off-peak by CO2 at noon: the job of 400 W goes first"
    assert any("off-peak by CO2 until" in decision.reason for decision in plan.decisions)


def test_a_delay_ends_when_electricity_is_cleaner(tmp_path: Path) -> None:
    now_s, clean_s = NOW_S + 14 * HOUR_S, NOW_S + 18 * HOUR_S
    loop = read_loop(tmp_path, "co2", now_s=now_s)
    job = a_job(1, submit_s=now_s, comment="offpeak:delay=12h")
    plan = plan_queue(facts_of(loop, job, now_s=now_s), RULES)
    assert plan.begin_s == {"1": clean_s}
    assert "when electricity is cleaner" in plan.tell["1"]
    (decision,) = plan.decisions
    assert "100.00 kgCO2/MWh over its run against 600.00 now (carbon intensity)" in decision.reason


def test_without_an_intensity_the_order_is_not_known(tmp_path: Path) -> None:
    loop = read_loop(tmp_path, "co2", source=str(tmp_path / "missing_g_per_kwh.csv"))
    facts = facts_of(loop, a_job(1), a_job(2), draws={"1": 400.0, "2": 100.0})
    assert facts.peak is Peak.UNKNOWN
    assert not plan_queue(facts, RULES).rank
    assert "not known by CO2" in price_text(loop.status(NOW_S), LocalClock(NOW_S, UTC))


def test_a_site_that_weighs_co2_must_have_its_intensity(tmp_path: Path) -> None:
    settings = Settings(
        prices=PriceSettings(decide_by="co2"), hardware=HardwareSettings(inventory=tmp_path / "inventory.toml")
    )
    with pytest.raises(BadInput, match="no carbon intensity is set"):
        make_site_context(settings)
