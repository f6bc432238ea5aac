"""Enclosures that share supplies are counted once, and their overhead is booked on their nodes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInventory, NoAnswer
from offpeak.machines.inventory import Enclosure
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.power.interlocks.rate_limits import find_groups
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.plausibility import find_draw_bound
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.metering import MeteredSite, Metering, Pace, after_round, share_enclosures

pytestmark = pytest.mark.quick

NODES = ("n1", "n2", "n3", "n4")
BY_BMC = Enclosure("c1", NODES, by_bmc=True)
BY_OUTLETS = Enclosure("c1", NODES, outlets=2)
OFF = find_draw_bound(bundled_node_class("server"), NodeState.OFF)
INVENTORY = """
[credentials.login]
user = "offpeak"
[hardware.blade]
driver = "ipmi"
credential = "login"
bmc_power = "enclosure"
[[machines]]
nodes = "n[1-4]"
hardware = "blade"
bmc = "b[1-4]"
enclosure = "c[1-2]"
[pdus.p1]
host = "p1"
credential = "login"
outlets = { "1-2" = "c[1-2]" }
"""


def of(enclosure: Enclosure) -> dict[str, Enclosure]:
    return dict.fromkeys((enclosure.name, *enclosure.nodes), enclosure)


def bmc(node: str, power_w: float | None, way: str = "dcmi") -> MeterResult:
    return MeterResult(node, way, (Reading(node, way, "total", power_w, 60.0, node=node),))


def outlets(*powers_w: float | None) -> MeterResult:
    readings = (
        Reading("p1", "snmp", f"outlet {at}", power_w, 60.0, node="c1") for at, power_w in enumerate(powers_w, 1)
    )
    return MeterResult("p1", "snmp", tuple(readings))


def parts(taken: list[MeterResult], enclosure: Enclosure) -> dict[str, float]:
    shared = share_enclosures(taken, MeteredSite(enclosure_of=of(enclosure)), 60.0)
    readings = [reading for result in shared for reading in result.readings if reading.way == "enclosure"]
    assert {each.node for each in readings} == set(NODES)
    return {each.node or "": each.power_w for each in readings if each.power_w is not None}


def test_bmcs_that_report_their_enclosure_are_counted_once() -> None:
    taken = [bmc(node, power_w) for node, power_w in zip(NODES, (216.0, 216.0, None, 250.0), strict=True)]
    assert parts(taken, BY_BMC) == dict.fromkeys(NODES, 54.0)
    shared = share_enclosures(taken, MeteredSite(enclosure_of=of(BY_BMC)), 60.0)
    assert [each.node for result in shared[:4] for each in result.readings] == [None] * 4


def test_the_overhead_is_shared_equally() -> None:
    taken = [outlets(120.0, 96.0), *(bmc(node, power_w) for node, power_w in zip(NODES, (10, 20, 30, 76), strict=True))]
    assert parts(taken, BY_OUTLETS) == pytest.approx({"n1": 30.0, "n2": 40.0, "n3": 50.0, "n4": 96.0})


def test_an_outlet_without_a_value_makes_the_whole_unknown() -> None:
    assert parts([outlets(120.0, None)], BY_OUTLETS) == {}
    assert parts([outlets(120.0)], BY_OUTLETS) == {}


@given(
    st.floats(0, 5000),
    st.lists(st.none() | st.floats(0, 500), min_size=4, max_size=4),
    st.sampled_from(["dcmi", "rapl"]),
)
def test_the_parts_are_the_whole(power_w: float, own_w: list[float | None], way: str) -> None:
    taken = [outlets(power_w / 2, power_w / 2), *(bmc(*own, way) for own in zip(NODES, own_w, strict=True))]
    found = parts(taken, BY_OUTLETS)
    assert sum(found.values()) == pytest.approx(power_w, abs=1e-6)
    assert min(found.values()) >= -1e-9


def test_a_spike_of_one_bmc_is_refused_for_the_enclosure() -> None:
    site = MeteredSite(lambda _: OFF, of(BY_BMC))
    state, rows = Metering(), []
    for minute in range(4):
        powers_w = (250.0, 25_550.0 if minute == 1 else 250.0, 250.0, 250.0)
        results = [bmc(node, power_w) for node, power_w in zip(NODES, powers_w, strict=True)]
        taken = [
            replace(result, readings=(replace(result.readings[0], at_unix_s=60.0 * minute),)) for result in results
        ]
        at_s = 60.0 * minute
        done = after_round(state, taken, pace=Pace(60.0, 5.0), now=Instant(at_s, at_s), site=site)
        state, rows = done.after, [*rows, *done.rows]
    booked_j = [(row.power_w or 0.0) * (row.until_unix_s - row.from_unix_s) for row in rows if row.node]
    assert sum(booked_j) == 250.0 * 180
    assert sum(history.refused for history in state.histories.values()) == 1


def test_a_silent_pdu_leaves_no_old_power_and_a_draw_that_lasts_counts_once() -> None:
    site = MeteredSite(lambda _: OFF, of(BY_OUTLETS))
    state, booked = Metering(), set[str | None]()
    for minute in range(12):
        at_s = 60.0 * minute
        values = (400.0, 450.0) if minute < 3 else (900.0, 950.0)
        readings = tuple(replace(each, at_unix_s=at_s) for each in outlets(*values).readings)
        silent = MeterResult("p1", "snmp", error=NoAnswer("p1: silent"))
        taken = [silent if minute == 11 else MeterResult("p1", "snmp", readings)]
        done = after_round(state, taken, pace=Pace(60.0, 5.0), now=Instant(at_s, at_s), site=site)
        state, booked = done.after, booked | {row.node for row in done.rows if row.power_w is not None}
        if minute == 10:
            known_w = [each.power_w or 0.0 for each in state.last.values() if each.node]
            assert sum(known_w) == 1850.0
    assert booked == {None, *NODES}
    assert {each.power_w for each in state.last.values()} == {None}


def test_an_inventory_names_enclosures_and_their_outlets(tmp_path: Path) -> None:
    path = tmp_path / "inventory.toml"
    path.write_text(INVENTORY)
    inventory = read_inventory(path)
    assert inventory.nodes_on(inventory.pdus[0]) == {"n1", "n2", "n3", "n4"}
    assert find_groups(inventory)["n3"] == {"PDU p1"}
    found = inventory.enclosure_of
    assert found["n4"] == found["c2"] == Enclosure("c2", ("n3", "n4"), outlets=1, by_bmc=True)
    path.write_text(INVENTORY.replace('"c[1-2]"\n', '"c[1-3]"\n'))
    with pytest.raises(BadInventory, match="4 nodes in 3 enclosures"):
        read_inventory(path)
    path.write_text(INVENTORY.replace('"c[1-2]"', '"n[1-2]"'))
    with pytest.raises(BadInventory, match="is there twice"):
        read_inventory(path)
