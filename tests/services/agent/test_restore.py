"""Only nodes on which a job can run are given back: none that goes down, or that is off unnoticed."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from memory_journal import MemoryJournal
from recording_scheduler import RecordingScheduler
from scheduler_values import NOW, NOW_S, node_of, record_of

from offpeak.door.door import Door
from offpeak.door.effect import AGENT, Effect, Mode, Outcome
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import Instant, NodeRecord, ObservedState, SentOrder
from offpeak.services.agent.node_memory import load_node_records, read_last_sleep_orders, save_node_records
from offpeak.services.agent.restore import hand_over_off_nodes, on_their_way, open_nodes
from offpeak.settings.ledger import LedgerSettings

CLOSED = {"closed": True, "reason": "offpeak: idle"}
REPORTED = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 20, NodeState.ON, clear=False)


@pytest.mark.parametrize(
    ("given", "record", "opened"),
    [
        ({}, record_of(), True),
        ({}, record_of(sent=REPORTED), False),
        ({}, record_of(state=NodeState.GOING_DOWN), False),
        # Off, and the scheduler has not noticed.
        ({}, record_of(state=NodeState.OFF), False),
        ({"boot_s": NOW_S - 60}, record_of(state=NodeState.OFF), True),
        ({"power": PowerState.OFF}, record_of(state=NodeState.OFF), True),
        ({"power": PowerState.POWERING_OFF}, record_of(state=NodeState.OFF), False),
        ({"responds": False}, record_of(), False),
    ],
)
def test_only_nodes_that_jobs_can_use_are_opened(given, record, opened) -> None:
    scheduler, nodes = RecordingScheduler(), [node_of(**CLOSED, **given)]
    orders = SchedulerOrders(Door(lambda _: Mode.ACTIVE, journal=MemoryJournal(), clock=lambda: 0.0), scheduler)
    but = on_their_way(nodes, NodeRecords({"n1": record}), {}, NOW)
    left = asyncio.run(open_nodes(nodes, orders, by=AGENT, but=but))
    assert (len(scheduler.reported), left) == ((1, {}) if opened else (0, {"n1": "it is on its way down or up"}))


def test_reason_why_a_node_stays_closed_is_reported() -> None:
    scheduler, nodes = RecordingScheduler(refuses={"n1": "Invalid user id"}), [node_of(**CLOSED)]
    orders = SchedulerOrders(Door(lambda _: Mode.ACTIVE, journal=MemoryJournal(), clock=lambda: 0.0), scheduler)
    assert asyncio.run(open_nodes(nodes, orders, by=AGENT)) == {"n1": "Invalid user id"}


@pytest.mark.parametrize(
    ("order_s", "kept", "sent"),
    [
        (NOW_S + 1, record_of(), REPORTED.order),
        # What was seen since counts.
        (NOW_S - 1, record_of(), None),
        # Since then the clock was set back.
        (NOW_S + 1, record_of(observed=replace(record_of().observed, at_unix_s=NOW_S + 3600.0)), REPORTED.order),
        (NOW_S + 1, record_of(sent=SentOrder(NodeOrder.ON, AGENT, 0.0, NodeState.OFF, clear=False)), REPORTED.order),
    ],
)
def test_an_order_of_a_run_that_was_killed_is_ours_still(tmp_path: Path, order_s, kept, sent) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    save_node_records(ledger, NodeRecords(), NodeRecords({"n1": kept}), monotonic_s=NOW.monotonic_s)
    intent = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, AGENT, "it goes to sleep"), order_s)
    ledger.write_outcome(intent, Outcome("interrupted", "found on after a restart"), order_s)
    later = Instant(100.0, NOW_S + 5.0)
    record = load_node_records(ledger, ["n1"], unix_s=later.unix_s, monotonic_s=later.monotonic_s).nodes["n1"]
    ledger.close()
    assert (record.sent.order if record.sent else None) == sent
    if sent is not None:
        assert (record.sent.by, record.sent.at_s) == (AGENT, 96.0)
        assert on_their_way([node_of(**CLOSED)], NodeRecords({"n1": record}), {}, later) == {"n1"}


SEEN_UP = ObservedState(NodeState.ON, NOW_S, 0.0, NOW_S - 5.0, AGENT, NodeState.ON)


@pytest.mark.parametrize(
    ("given", "record", "orders", "stays"),
    [
        # The life knows of no order: it was sent by a program that was killed, or is just being sent.
        ({}, record_of(), [("soft_off", 20.0)], True),
        # The node has left the settings, so that nobody looks at it.
        ({}, None, [("soft_off", 20.0)], True),
        ({}, None, [("on", 20.0)], False),
        ({}, None, [("soft_off", 4000.0)], True),
        ({}, None, [("soft_off", 86_401.0)], False),
        # An order to wake that finds the node up does not take the one before it back.
        ({}, record_of(), [("hard_off", 20.0), ("on", 10.0)], True),
        ({}, NodeRecord("n1", observed=replace(SEEN_UP, state=NodeState.UNKNOWN)), [("soft_off", 20.0)], True),
        # It was seen to come up since, or the scheduler says so.
        ({}, NodeRecord("n1", observed=SEEN_UP), [("soft_off", 20.0)], False),
        ({"boot_s": NOW_S - 10}, None, [("soft_off", 20.0)], False),
    ],
)
def test_node_with_a_recent_order_in_the_ledger_stays_closed(tmp_path: Path, given, record, orders, stays) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    for order, ago_s in orders:
        ledger.write_intent(Effect("n1", order, AGENT, "idle"), NOW_S - ago_s)
    sleep_orders = read_last_sleep_orders(ledger, float(NOW_S))
    ledger.close()
    records = NodeRecords({} if record is None else {"n1": record})
    assert bool(on_their_way([node_of(**CLOSED, **given)], records, sleep_orders, NOW)) is stays


def test_a_node_that_does_not_count_as_powered_down_stays_closed() -> None:
    """Or a job would start on a node that is off."""
    names = ["n1", "n2"]
    scheduler = RecordingScheduler(refuses={"n2": "is ALLOCATED"})
    door = make_scheduler_door(MemoryJournal(), lambda _: Mode.ACTIVE, lambda: NOW_S, nodes=names, hold_of={}.get)
    nodes = [node_of(name, **CLOSED, power=PowerState.OFF) for name in names]
    handed_over = asyncio.run(hand_over_off_nodes(names, lambda: nodes, SchedulerOrders(door, scheduler), by="carla"))
    assert handed_over == {"n1"}
    opened = [list(subjects) for change, subjects in scheduler.reported if change is NodeChange.OPEN]
    assert opened == [["n1"]]
