"""The metrics of the agent's snapshot, and the counters of what the ledger books."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_socket import AT_S
from page_site import make_snapshot

from offpeak.errors import BadLedger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading, Price, SavingRecord
from offpeak.model.constants import DAY_S
from offpeak.services.page.metrics import BookedCounters, make_families
from offpeak.settings.ledger import LedgerSettings

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("has_looked", "timestamp"), [(True, AT_S), (False, 0)])
def test_an_agent_without_a_successful_round_has_never_looked(has_looked: bool, timestamp: int) -> None:
    shown = make_snapshot(2, 2)
    shown = replace(shown, published=replace(shown.published, at_unix_s=float(AT_S), has_looked=has_looked))
    of_name = {family.name: family for family in make_families(shown)}
    assert [sample.value for sample in of_name["offpeak_agent_last_look_timestamp_seconds"].samples] == [timestamp]


HOUR_S, MIDNIGHT_S = 3600, 1_794_438_000
ENERGY, COST, SAVED = "offpeak_energy_joules", "offpeak_electricity_cost", "offpeak_saved_cost"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    ledger.ready()
    yield ledger
    ledger.close()


def read(counters: BookedCounters, ledger: Ledger, now_s: float) -> dict[str, float]:
    """Return the samples after a read, by name with their labels, without those of no change."""
    ledger.settle()
    counters._next_read_s = 0.0
    counters.read(ledger.settings.url, now_s)
    samples = [sample for family in counters.families() for sample in family.samples]
    return {" ".join([each.name, *each.labels.values()]): each.value for each in samples if each.value}


def draw(ledger: Ledger, from_s: float, until_s: float, watts: float, node: str = "n1") -> None:
    ledger.write_readings([MeterReading("pdu", "snmp", node, from_s, until_s, watts, node=node)])


def price(ledger: Ledger, from_s: float, until_s: float, per_mwh: float, currency: str = "EUR") -> None:
    ledger.write_prices([Price(from_s, until_s, per_mwh, currency, "test", None)])


def save(ledger: Ledger, cost: float, *, day_s: float = MIDNIGHT_S, shadow: bool = False) -> None:
    row = (day_s, day_s + DAY_S, "all nodes on", 4e6, 10.0, 3e6, 10.0 - cost, "EUR")
    ledger.write_savings([SavingRecord(*row, is_shadow=shadow, saved_carbon_g=100.0)])


def test_a_correction_is_counted_apart_and_no_counter_falls(ledger: Ledger) -> None:
    counters, now_s = BookedCounters(), MIDNIGHT_S + 14 * HOUR_S
    save(ledger, 3.0)
    assert read(counters, ledger, now_s) == {}
    save(ledger, 5.0)
    assert read(counters, ledger, now_s) == {f"{SAVED}_total sleep 0 EUR": 2.0}
    save(ledger, 1.5)
    after = {f"{SAVED}_total sleep 0 EUR": 2.0, f"{SAVED}_reductions_total sleep 0 EUR": 3.5}
    assert read(counters, ledger, now_s) == after
    assert read(counters, ledger, now_s + 7 * DAY_S) == read(counters, ledger, now_s + 30 * DAY_S) == after


def test_what_begins_while_prometheus_looks_is_counted_from_zero(ledger: Ledger) -> None:
    counters, now_s = BookedCounters(), MIDNIGHT_S + HOUR_S
    assert read(counters, ledger, now_s) == {}
    save(ledger, 5.0, shadow=True)
    assert read(counters, ledger, now_s) == {}
    assert counters.counted[SAVED, (("lever", "sleep"), ("shadow", "1"), ("currency", "EUR"))] == (0.0, 0.0)
    found = read(counters, ledger, now_s)
    assert found[f"{SAVED}_total sleep 1 EUR"] == 5.0
    assert found["offpeak_saved_energy_joules_total sleep 1"] == 1e6
    assert found["offpeak_saved_co2_grams_total sleep 1"] == 100.0
    save(ledger, 4.0, day_s=MIDNIGHT_S + DAY_S, shadow=True)
    assert read(counters, ledger, now_s + DAY_S)[f"{SAVED}_total sleep 1 EUR"] == 9.0


def test_energy_counts_as_it_is_read_with_late_prices_and_negative_ones(ledger: Ledger) -> None:
    counters, begin_s = BookedCounters(), MIDNIGHT_S + 12 * HOUR_S
    draw(ledger, begin_s - 900, begin_s, 1000.0)
    read(counters, ledger, begin_s)
    draw(ledger, begin_s, begin_s + 600, 1000.0)
    unpriced = "offpeak_unpriced_energy_joules"
    assert read(counters, ledger, begin_s + 600) == {f"{ENERGY}_total": 6e5, f"{unpriced}_total": 6e5}
    price(ledger, begin_s, begin_s + 900, 90.0)
    read(counters, ledger, begin_s + 700)
    found = read(counters, ledger, begin_s + 700)
    assert found.pop(f"{COST}_total EUR") == pytest.approx(0.015)
    assert found == {f"{ENERGY}_total": 6e5, f"{unpriced}_total": 6e5, f"{unpriced}_reductions_total": 6e5}
    price(ledger, begin_s + 900, begin_s + 1800, -60.0)
    draw(ledger, begin_s + 900, begin_s + 1500, 1000.0)
    found = read(counters, ledger, begin_s + 1500)
    assert found[f"{COST}_total EUR"] == pytest.approx(0.015)
    assert found[f"{COST}_reductions_total EUR"] == pytest.approx(0.01)


def test_a_clock_that_goes_back_counts_nothing_twice(ledger: Ledger) -> None:
    counters, now_s = BookedCounters(), MIDNIGHT_S + 12 * HOUR_S
    read(counters, ledger, now_s)
    save(ledger, 2.0)
    draw(ledger, now_s - 900, now_s, 100.0)
    read(counters, ledger, now_s)
    before = read(counters, ledger, now_s)
    assert before[f"{ENERGY}_total"] == 90_000
    for jump_s in (40 * DAY_S, -5 * HOUR_S, 0):
        assert read(counters, ledger, now_s + jump_s) == before


def test_two_currencies_leave_energy_without_a_price(ledger: Ledger) -> None:
    counters, change_s = BookedCounters(), MIDNIGHT_S + 12 * HOUR_S
    price(ledger, change_s - DAY_S, change_s, 100.0, "DEM")
    draw(ledger, change_s - 900, change_s, 1000.0)
    read(counters, ledger, change_s - 1)
    draw(ledger, change_s, change_s + 900, 1000.0)
    price(ledger, change_s, change_s + DAY_S, 50.0)
    found = read(counters, ledger, change_s + 899)
    assert found[f"{ENERGY}_total"] == 9e5
    assert f"{COST}_total EUR" not in found
    # The quarter-hour before had a price when the page began to count.
    assert found["offpeak_unpriced_energy_joules_total"] == 1.8e6


def test_a_ledger_that_cannot_be_read_leaves_the_counters(ledger: Ledger, tmp_path: Path) -> None:
    counters, now_s = BookedCounters(), MIDNIGHT_S + HOUR_S
    with pytest.raises(BadLedger):
        counters.read(f"sqlite:///{tmp_path}/none.sqlite", now_s)
    save(ledger, 2.0)
    read(counters, ledger, now_s)
    save(ledger, 3.0)
    assert read(counters, ledger, now_s)[f"{SAVED}_total sleep 0 EUR"] == 1.0
