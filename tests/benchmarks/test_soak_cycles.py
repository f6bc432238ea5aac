"""A tiny soak of cycles. It proves nothing about memory, but that the soak runs and that its witness finds things."""

import asyncio
from dataclasses import dataclass

from ipmi_fixtures import PACKAGES
from needed_programs import need

from benchmarks.soak_cycles.bmcs import NEEDED
from benchmarks.soak_cycles.books import unlike, without_end
from benchmarks.soak_cycles.figures import figures
from benchmarks.soak_cycles.plan import CyclesPlan
from benchmarks.soak_cycles.run import cycled
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.effect import Effect, Outcome
from offpeak.door.journal import Intent, IntentResult
from offpeak.model.orders import NodeOrder, NodeState

PLAN = CyclesPlan(bmcs=8, cycles=10, timeout_s=0.2)
ALL_ON = dict.fromkeys(PLAN.nodes, NodeState.ON)


def test_a_tiny_soak_finds_nothing() -> None:
    need((*NEEDED, "/usr/include/OpenIPMI/serv.h"), packages=PACKAGES)
    found = asyncio.run(cycled(PLAN))
    assert found.witness.broken == []
    assert [figure for figure in figures(found) if not figure.reached] == []
    assert (found.room.cycles >= 10, found.events["crash"], found.answers["refused by mode"] > 0) == (True, 1, True)


@dataclass
class Truth:
    """The state of a node that the witness reads."""

    job: bool = False
    fault: str = ""
    stays_on: bool = True


def test_an_order_that_must_not_be_is_found() -> None:
    cases: list[tuple[Truth, NodeState, str, list[str]]] = [
        (Truth(), NodeState.ON, "soft_off", []),
        (Truth(job=True), NodeState.OFF, "on", []),
        (Truth(job=True), NodeState.ON, "soft_off", ["n1: soft_off: a job ran there"]),
        (Truth(), NodeState.UNKNOWN, "on", ["n1: on: its state was not known"]),
        (Truth(fault="exchanged"), NodeState.ON, "soft_off", ["n1: soft_off: another board was there"]),
        (Truth(), NodeState.ON, "hard_off", ["n1: hard_off: nobody wanted that"]),
    ]
    for truth, state, order, findings in cases:
        witness = Witness(PLAN, {node: Truth() for node in PLAN.nodes} | {"n1": truth})  # type: ignore[dict-item]
        witness.after_sweep({"n1": [order]}, ALL_ON | {"n1": state}, 1000.0)
        assert witness.broken == findings


def test_too_many_orders_and_too_few_nodes_left_on_are_found() -> None:
    witness = Witness(PLAN, {node: Truth() for node in PLAN.nodes})  # type: ignore[misc]
    witness.after_sweep({"n1": ["soft_off"], "n3": ["soft_off"]}, ALL_ON, 1000.0)
    assert witness.broken == []
    witness.after_sweep({"n5": ["soft_off"]}, ALL_ON, 1059.0)
    assert witness.broken == ["sleep_ramp: 600, at most 400 may be"]
    witness.after_sweep({"n7": ["soft_off"], "n8": ["soft_off"]}, ALL_ON, 4500.0)
    assert witness.broken == ["sleep_ramp: 600, at most 400 may be"]
    asleep = Truth(stays_on=False)
    witness = Witness(PLAN, dict.fromkeys(PLAN.nodes, asleep) | {"n1": Truth()})  # type: ignore[dict-item]
    witness.after_sweep({"n1": ["soft_off"]}, ALL_ON, 1000.0)
    assert witness.broken == ["min_on: 8, at most 7 may be"]
    witness = Witness(PLAN, {})
    witness.between_sweeps({"n1": ["on"]})
    assert witness.broken == ["n1: ['on']: came when nobody gave orders"]


def action(number: int, order: str, result: str | None) -> IntentResult:
    effect = Effect("n1", NodeOrder(order), "offpeak", "a test")
    return IntentResult(Intent(number, effect, 0.0), None if result is None else Outcome(result, ""), 1.0)


def test_a_ledger_that_tells_something_else_is_found() -> None:
    cases: list[tuple[list[str], list[str], set[tuple[str, int]], bool]] = [
        (["soft_off", "on"], ["done", "done"], set(), True),
        (["soft_off"], ["done", "done"], set(), False),
        (["soft_off"], ["done", "failed"], set(), True),
        (["on"], ["interrupted", "done"], set(), True),
        (["soft_off", "on"], ["done", "interrupted"], set(), True),
        (["soft_off", "on", "on"], ["done", "done"], set(), False),
        (["soft_off", "on", "on"], ["done", "done"], {("n1", 1)}, True),
        (["on", "soft_off"], ["done", "done"], set(), False),
    ]
    for log, results, unrecorded, agree in cases:
        orders = zip(range(1, 3), ("soft_off", "on"), results, strict=True)
        actions = [action(number, order, result) for number, order, result in orders]
        assert (list(unlike({"n1": log}, actions, unrecorded)) == []) is agree
    assert list(without_end([action(1, "on", "done"), action(2, "on", None)])) == ["n1: intent 2 has no outcome"]
