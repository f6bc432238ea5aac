"""Power by node state over the last day, from the ledger."""

import math
from pathlib import Path

import pytest
from page_site import AT_S, make_snapshot, write_ledger

from offpeak.ledger.database import open_ledger
from offpeak.ledger.node_energy import NodeMean
from offpeak.services.page.event_stream import NodePowerHistory, make_power_slots

pytestmark = pytest.mark.quick

IDLE_W = {"n1": 100.0, "n2": 100.0}


def was(node: str, at_s: float, state: str) -> dict[str, object]:
    return {"node": node, "at_unix_s": at_s, "observed": state}


def test_each_node_counts_as_what_it_was_in_the_middle() -> None:
    means = [NodeMean(0, "n1", 300.0), NodeMean(0, "n2", 8.0), NodeMean(900, "n1", 20.0)]
    states = [was("n1", 0, "on"), was("n2", 0, "off"), was("n1", 1300, "off")]
    slots = make_power_slots(means, states, {}, IDLE_W)
    assert slots[0][0] == {"on": 300.0, "off": 8.0}
    assert slots[0][1] == 400.0
    assert slots[900][0] == {"off": 20.0}
    assert slots[900][1] == 100.0


def test_a_node_that_is_on_has_a_job_or_idles() -> None:
    means = [
        NodeMean(0, "n1", 300.0),
        NodeMean(900, "n1", 100.0),
        NodeMean(1800, "n1", 310.0),
        NodeMean(1800, "n2", 7.0),
    ]
    states = [was("n1", 0, "on"), was("n2", 0, "off")]
    runs = {"n1": [(-50.0, 600.0), (2000.0, math.inf)], "n2": [(0.0, math.inf)]}
    slots = make_power_slots(means, states, runs, IDLE_W)
    assert [slot[0] for slot in slots.values()] == [{"busy": 300.0}, {"on": 100.0}, {"busy": 310.0, "off": 7.0}]
    assert [slot[1] for slot in slots.values()] == [300.0, 100.0, 410.0]


def test_without_offpeak_nothing_draws_less_than_it_does() -> None:
    (slot,) = make_power_slots([NodeMean(0, "n1", 160.0)], [was("n1", 0, "booting")], {}, IDLE_W).values()
    assert slot[1] == 160.0
    (unknown,) = make_power_slots([NodeMean(0, "n3", 60.0)], [], {}, {}).values()
    assert unknown == ({"unknown": 60.0}, 60.0)


def test_history_is_read_on_from_its_last_instant(tmp_path: Path) -> None:
    url, shown = f"sqlite:///{tmp_path}/ledger.sqlite", make_snapshot(6, 1)
    write_ledger(url, shown, hours=5)
    idle_w = {node.node: 145.0 for node in shown.nodes}
    at_once, by_and_by = NodePowerHistory(), NodePowerHistory()
    with open_ledger(url) as connection:
        at_once.read(connection, AT_S, idle_w)
        for ago_s in (7200, 3600, 0):
            by_and_by.read(connection, AT_S - ago_s, idle_w)
    assert by_and_by.slots == at_once.slots
    assert len(at_once.slots) == 20
    assert all(sum(slot[0].values()) <= slot[1] + 1e-6 for slot in at_once.slots.values())
    drawn_w = sum(at_once.slots[max(at_once.slots)][0].values())
    assert drawn_w == pytest.approx(sum(node.watts or 0 for node in shown.nodes), rel=0.2)
