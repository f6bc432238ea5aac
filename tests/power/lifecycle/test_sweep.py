"""Rounds over several nodes: who is asked first, who is ordered first, what is told to whom."""

import asyncio
import random
from collections.abc import Callable

import pytest
from model_room import HARDWARE, ModelNode, model_lookout

from offpeak.door.effect import AGENT, Effect, Outcome, Refusal
from offpeak.model.orders import NodeOrder
from offpeak.power.lifecycle.decisions import NodeRecords, sort_silent_first
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import DesiredState, DesiredStateChange, Instant, NodeRecord, SentOrder
from offpeak.power.lifecycle.sweep import SweepContext, ledger_fields, sweep
from offpeak.power.lifecycle.transitions import apply_event

pytestmark = pytest.mark.quick


class Rounds:
    """Makes rounds over model nodes, with a door that notes what it is asked."""

    def __init__(self, **states: str) -> None:
        self.nodes = {name: ModelNode(name, state) for name, state in states.items()}
        self.records = NodeRecords({name: NodeRecord(name) for name in states})
        self.context = NodeContext(HARDWARE, random.Random(1))
        self.requested, self.published = list[Effect](), list[NodeRecords]()
        self.at_s = 0.0

    def now(self) -> Instant:
        return Instant(self.at_s, self.at_s)

    def wants(self, node: str, order: NodeOrder) -> None:
        record = apply_event(
            self.records.nodes[node],
            DesiredStateChange(DesiredState(order, AGENT, 0.0, "idle")),
            self.now(),
            self.context,
        )
        self.records = NodeRecords({**self.records.nodes, node: record}, self.records.times)

    async def door(self, effect: Effect, before_sending: Callable[[], None]) -> Outcome | Refusal:
        assert self.published, "the rules look at what was seen"
        before_sending()
        self.requested.append(effect)
        self.nodes[effect.subject].reported(NodeOrder(effect.order), way=effect.way)
        return Outcome("done", "")

    def round(self, at_s: float) -> list[NodeRecord]:
        """Return the records that have changed."""
        self.at_s = at_s
        for node in self.nodes.values():
            node.advance(at_s)
        means = SweepContext(model_lookout(self.nodes), self.door, self.context, self.now, 5.0, self.published.append)
        before = {node: ledger_fields(record) for node, record in self.records.nodes.items()}
        self.records = asyncio.run(sweep(means, self.records, {}))
        return [record for node, record in self.records.nodes.items() if ledger_fields(record) != before[node]]


def test_sweep_orders_wakes_first() -> None:
    rounds = Rounds(n1="on", n2="off", n3="on", n4="off")
    for node in ("n1", "n3"):
        rounds.wants(node, NodeOrder.SOFT_OFF)
    for node in ("n2", "n4"):
        rounds.wants(node, NodeOrder.ON)
    rounds.round(0.0)
    assert [effect.subject for effect in rounds.requested] == ["n2", "n4", "n1", "n3"]


def test_an_order_carries_what_it_rests_on() -> None:
    rounds = Rounds(n1="on")
    rounds.wants("n1", NodeOrder.SOFT_OFF)
    rounds.round(0.0)
    (effect,) = rounds.requested
    assert (effect.order, effect.by, effect.reason) == ("soft_off", "offpeak", "idle")
    assert dict(effect.inputs) == {"way": "", "state": "on", "seen_s_ago": 0.0, "tries": 0}


def test_only_what_has_changed_is_worth_a_line() -> None:
    rounds = Rounds(n1="on", n2="on")
    assert [record.node for record in rounds.round(0.0)] == ["n1", "n2"]
    assert rounds.round(10.0) == []
    rounds.wants("n2", NodeOrder.SOFT_OFF)
    rounds.round(20.0)
    assert [str(record.observed.state) for record in rounds.round(30.0)] == ["going down"]
    assert [str(record.observed.state) for record in rounds.round(120.0)] == ["off"]


def test_sweep_learns_durations_by_kind_of_hardware() -> None:
    rounds = Rounds(n1="on")
    rounds.wants("n1", NodeOrder.SOFT_OFF)
    rounds.round(0.0)
    rounds.round(60.0)
    rounds.round(95.0)
    assert rounds.records.times["model"].expected_s("shutdown") == 95.0


def test_an_order_is_known_before_it_is_sent_and_whatever_cuts_the_round_off() -> None:
    rounds = Rounds(n1="on", n2="on")
    sent: dict[str, SentOrder | None] = {}

    async def hangs(effect: Effect, before_sending: Callable[[], None]) -> Outcome:
        if effect.subject == "n2":
            # A rule that takes its time: nothing is sent.
            await asyncio.sleep(3600)
        before_sending()
        sent.update({node: record.sent for node, record in rounds.published[-1].nodes.items()})
        await asyncio.sleep(3600)
        return Outcome("done", "")

    async def cut_off() -> None:
        means = SweepContext(
            model_lookout(rounds.nodes), hangs, rounds.context, rounds.now, 5.0, rounds.published.append
        )
        round_ = asyncio.create_task(sweep(means, rounds.records, {}))
        while "n1" not in sent:
            await asyncio.sleep(0.01)
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_

    for node in rounds.nodes:
        rounds.wants(node, NodeOrder.SOFT_OFF)
    asyncio.run(cut_off())
    assert sent["n1"] is not None
    assert (sent["n1"].order, sent["n2"]) == (NodeOrder.SOFT_OFF, None)
    assert rounds.published[-1].nodes["n1"].sent == sent["n1"]


def test_node_goes_into_standby_and_back_by_its_own_readings() -> None:
    rounds = Rounds(n1="on")
    rounds.wants("n1", NodeOrder.STANDBY)
    rounds.round(0.0)
    rounds.round(10.0)
    assert str(rounds.records.nodes["n1"].observed.state) == "standby"
    rounds.wants("n1", NodeOrder.ON)
    rounds.round(20.0)
    rounds.round(40.0)
    assert str(rounds.records.nodes["n1"].observed.state) == "on"
    assert rounds.records.times["model"].expected_s("resume") == 20.0


def test_sweep_polls_silent_nodes_first() -> None:
    rounds = Rounds(n1="on", n2="on", n3="on")
    rounds.nodes["n3"].faults.add("dead")
    rounds.round(0.0)
    assert sort_silent_first(rounds.records, rounds.nodes) == ["n3", "n1", "n2"]
