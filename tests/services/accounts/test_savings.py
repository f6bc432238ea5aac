"""The savings of rests: unknown states save nothing, and days add up."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.prices import MeanPrice
from offpeak.ledger.rows import MeterReading, NodeStateRecord, Price
from offpeak.machines.inventory import Enclosure
from offpeak.model.constants import J_PER_MWH
from offpeak.model.node_class import EnclosurePower, NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import OFF
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.savings import (
    BASELINE,
    RestUse,
    SleepPeriod,
    book_savings,
    find_sleep_periods,
    sleep_energy_j,
    sum_savings,
)

pytestmark = pytest.mark.quick

DAY = TimeRange(0.0, 86_400.0)
SERVER = bundled_node_class("server")
OFF_DEPTH = SERVER.find_depth(OFF)
assert OFF_DEPTH is not None
PRICE = MeanPrice(100.0, 400.0, "EUR", 1.0)


def night(node: str = "n1", by: str = "offpeak") -> list[NodeStateRecord]:
    """On, down at 1,000 s, off at 1,060 s, woken for a job at 5,000 s, on at 5,120 s."""
    return [
        NodeStateRecord(node, -50.0, "on", "on", "scheduler"),
        NodeStateRecord(node, 1000.0, "going down", "soft_off", by),
        NodeStateRecord(node, 1060.0, "off", "soft_off", by),
        NodeStateRecord(node, 5000.0, "booting", "on", by),
        NodeStateRecord(node, 5120.0, "on", "on", by),
    ]


def test_a_rest_is_from_the_way_down_to_the_way_up() -> None:
    (period,) = find_sleep_periods(night(), DAY)
    assert period == SleepPeriod(
        "n1", 1000, 5120, {NodeState.GOING_DOWN: 60.0, NodeState.OFF: 3940.0, NodeState.BOOTING: 120.0}
    )
    enter, leave = OFF_DEPTH.enter.power_w, OFF_DEPTH.leave.power_w
    assert sleep_energy_j(period, SERVER) == pytest.approx(60 * enter + 3940 * OFF_DEPTH.power_w + 120 * leave)


def test_a_node_that_sleeps_beside_one_that_is_awake_draws_its_share_of_the_enclosure() -> None:
    of_three = Enclosure("c1", ("n1", "n2", "n3"))
    enclosure_of = dict.fromkeys(("c1", *of_three.nodes), of_three)
    blade = replace(SERVER, enclosure=EnclosurePower(3, 30.0))
    states = [*night("n1"), *night("n2"), NodeStateRecord("n3", 2060.0, "off", "off", "offpeak")]
    periods = {
        period.node: period
        for period in find_sleep_periods(sorted(states, key=lambda each: each.at_unix_s), DAY, enclosure_of)
    }
    assert [periods[node].beside_s for node in of_three.nodes] == [1000.0, 1000.0, DAY.until_unix_s - 5000.0]
    alone_j, together_j = (
        sleep_energy_j(periods["n1"], blade),
        sleep_energy_j(find_sleep_periods(night(), DAY)[0], blade),
    )
    assert alone_j is not None
    assert together_j is not None
    assert alone_j - together_j == pytest.approx(10.0 * 1000)
    assert [period.beside_s for period in find_sleep_periods(night(), DAY, enclosure_of)] == [3940.0], (
        "nothing is known of others"
    )


def test_nodes_off_by_others_or_unknown_save_nothing() -> None:
    assert find_sleep_periods(night(by="admin ann"), DAY) == ()
    lost = [
        NodeStateRecord("n1", 0.0, "off", "off", "offpeak"),
        NodeStateRecord("n1", 600.0, "unknown", "off", "unknown"),
    ]
    assert [(period.from_unix_s, period.until_unix_s) for period in find_sleep_periods(lost, DAY)] == [(0, 600)]
    assert find_sleep_periods([NodeStateRecord("n1", 0.0, "on", "on", "scheduler")], DAY) == ()


def test_a_scheduler_that_wakes_a_node_for_a_job_makes_no_rest_of_an_admins_order() -> None:
    states = [*night(by="admin ann")[:3], *night(by="scheduler")[3:]]
    assert find_sleep_periods(states, DAY) == ()
    woken = [*night(by="offpeak")[:3], *night(by="admin ann")[3:]]
    assert [period.length_s for period in find_sleep_periods(woken, DAY)] == [4120.0]


def test_a_class_without_depths_tells_nothing() -> None:
    (period,) = find_sleep_periods(night(), DAY)
    assert sleep_energy_j(period, NodeClass("always", 100.0, ((0.0, 100.0), (1.0, 200.0)), ())) is None
    assert sum_savings(DAY, []) is None


def test_without_a_price_there_is_no_money() -> None:
    (period,) = find_sleep_periods(night(), DAY)
    unpriced = MeanPrice(None, None, "", 0.0)
    saving = sum_savings(DAY, [RestUse(period, 10.0, 20.0, True, PRICE), RestUse(period, 10.0, 20.0, False, unpriced)])
    assert saving is not None
    assert (saving.baseline_energy_j, saving.energy_j, saving.cost, saving.currency) == (40.0, 20.0, None, "")
    assert (
        saving.basis
        == "1 node asleep for 2.3 h; 50% measured, else by node class; idle 0% measured, else by node class"
    )


states = st.sampled_from(["on", "going down", "off", "standby", "booting", "unknown"])


@given(st.lists(st.tuples(states, st.floats(1, 5000)), max_size=15), st.lists(st.floats(0, 20_000), max_size=4))
def test_rests_never_overlap_lie_within_the_time_and_add_up(steps: list[tuple[str, float]], cuts: list[float]) -> None:
    at_s, recorded = 0.0, []
    for state, length_s in steps:
        recorded.append(NodeStateRecord("n1", at_s, state, "off", "offpeak"))
        at_s += length_s
    span = TimeRange(0.0, 20_000.0)
    found = find_sleep_periods(recorded, span)
    assert all(before.until_unix_s <= after.from_unix_s for before, after in pairwise(found))
    assert all(sum(period.seconds.values()) == pytest.approx(period.length_s) for period in found)
    edges = sorted({0.0, 20_000.0, *cuts})
    parts = [period for a, b in pairwise(edges) for period in find_sleep_periods(recorded, TimeRange(a, b))]
    assert sum(period.length_s for period in parts) == pytest.approx(sum(period.length_s for period in found))


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_a_day_is_booked_from_the_ledger(ledger: Ledger) -> None:
    ledger.write_states([*night("n1"), *night("n2"), *night("n3", by="admin ann"), *night("n4")])
    at = range(960, 5160, 60)
    ledger.write_readings([MeterReading("n1", "dcmi", "total", value, value + 60, 9.0, node="n1") for value in at])
    ledger.write_prices([Price(index, index + 900, 100.0, "EUR", "x", 400.0) for index in range(0, 86_400, 900)])
    assert ledger.settle()
    classes = {"n1": SERVER, "n2": SERVER, "n3": SERVER}
    (saving,) = book_savings(ledger.settings.url, DAY, ["n1", "n2", "n3", "n4"], classes.get)
    assert saving is not None
    (period,) = find_sleep_periods(night(), DAY)
    modelled_j = sleep_energy_j(period, SERVER)
    assert modelled_j is not None
    assert saving.energy_j == pytest.approx(9.0 * 4120 + modelled_j)
    assert saving.baseline_energy_j == pytest.approx(2 * SERVER.idle_w * 4120)
    assert saving.baseline_cost == pytest.approx(saving.baseline_energy_j * 100 / J_PER_MWH)
    assert (saving.baseline, saving.from_unix_s, saving.currency) == (BASELINE, 0.0, "EUR")
    # Of the two rests one is measured, and of neither the idle power.
    assert saving.measured_share == 0.25
    ledger.write_savings([saving])
    ledger.write_savings([saving])
    assert ledger.settle()
    of_two = dict.fromkeys(("n2", "n4"), Enclosure("c1", ("n2", "n4")))
    blades = {node: replace(SERVER, enclosure=EnclosurePower(2, 20.0)) for node in classes}
    for states, beside_s in (([], 0.0), ([NodeStateRecord("n4", 2060.0, "on", "on", "admin ann")], 2940.0)):
        ledger.write_states(states)
        assert ledger.settle()
        (shared,) = book_savings(ledger.settings.url, DAY, ["n1", "n2", "n3"], blades.get, of_two)
        assert shared is not None
        assert shared.energy_j == pytest.approx(saving.energy_j + 10.0 * beside_s)
    (so_far,) = book_savings(ledger.settings.url, TimeRange(0.0, 3000.0), ["n1"], classes.get)
    assert so_far is not None
    assert so_far.baseline_energy_j == pytest.approx(SERVER.idle_w * 2000)
    assert book_savings(ledger.settings.url, TimeRange(0.0, 0.0), ["n1"], classes.get) == ()
    assert book_savings(ledger.settings.url, DAY, [], classes.get) == ()
