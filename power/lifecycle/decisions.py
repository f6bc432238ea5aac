"""Takes a poll of all nodes into their records and says which orders are due, or why none is. No effects, no clock.

Whether a due order is given, the door decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.door.effect import ADMIN, US, Effect
from offpeak.machines.inventory import InventoryNode
from plugin.scheduler.node import SchedulerState
from power.drivers.port import Order
from power.lifecycle.node_context import NO_DURATIONS, MeasuredDurations, NodeContext
from power.lifecycle.node_record import (
    ASLEEP,
    DesiredState,
    Instant,
    NodeObservation,
    NodeRecord,
    NodeState,
    PendingOrder,
    SchedulerReport,
    TimePassed,
    is_goal,
)
from power.lifecycle.transitions import OrderStep, apply_event, list_steps, order_timeout_s


@dataclass(frozen=True, slots=True)
class DueOrder:
    """An order that is due, by which way, who wants it, and why."""

    order: Order
    way: str
    by: str
    why: str


def find_due_order(life: NodeRecord, now: Instant, terms: NodeContext) -> DueOrder | None:
    """Return what is to be ordered now, None for nothing: never of a node whose state is not known."""
    wish = life.wish
    if wish is None or find_obstacle(life, now):
        return None
    course = life.effort.course
    if course is not None:
        return _repeat_wake(life, course, now, terms)
    steps = _list_steps_now(life, wish, terms)
    if not steps:
        return None
    step = steps[min(life.effort.step, len(steps) - 1)]
    return DueOrder(step.order, step.way, wish.by, wish.why)


def find_obstacle(life: NodeRecord, now: Instant) -> str:
    """Return why nothing is done for the wish, in words; "" where something may be."""
    wish = life.wish
    if wish is None or is_goal(wish.order, life.seen.state):
        return "nothing is wanted of it" if wish is None else "it is as it is wanted"
    return _find_other_owner(life, wish, now) or _find_obstacle_in_state(life, wish) or _describe_pause(life, now)


def describe_fault(life: NodeRecord) -> str:
    """Return why the operator has the node, "" if nobody does, or if it is tried again since the fault was ours."""
    fault = life.fault
    return "" if fault is None or fault.ours else f"{fault.what}: {fault.reason}"


def _find_other_owner(life: NodeRecord, wish: DesiredState, now: Instant) -> str:
    hold = life.hold
    if hold is not None and hold.lasts(now.unix_s) and wish.by != f"{ADMIN}{hold.owner}":
        return f"held by {hold.owner}: {hold.reason}"
    if why := describe_fault(life):
        return why
    if wish.by == US and now.monotonic_s < life.hands_off_until_s:
        return "somebody else changed it: hands off for a while"
    return ""


def _find_obstacle_in_state(life: NodeRecord, wish: DesiredState) -> str:
    if life.seen.state is NodeState.UNKNOWN:
        return f"its state is not known: {life.seen.trouble}" if life.seen.trouble else "it was not seen yet"
    if wish.order is not Order.ON and life.word is SchedulerState.BUSY:
        return "a job runs there"
    return ""


def _describe_pause(life: NodeRecord, now: Instant) -> str:
    effort = life.effort
    if now.monotonic_s >= effort.next_try_s:
        return ""
    if effort.refusal is not None:
        return f"the door refused it ({effort.refusal.rule}): {effort.refusal.said}"
    return f"tried {effort.tries} times, then a pause: {effort.said}"


def _repeat_wake(life: NodeRecord, course: PendingOrder, now: Instant, terms: NodeContext) -> DueOrder | None:
    """Return the ON that is sent once more: some BMCs accept it while the node still shuts down, and forget it."""
    wish = life.wish
    if wish is None or wish.order is not Order.ON or course.order is not Order.ON or course.sent > 1:
        return None
    early = now.monotonic_s - course.sent_s < order_timeout_s(course, terms) / 2
    if early or life.seen.state not in ASLEEP:
        return None
    return DueOrder(Order.ON, course.way, wish.by, f"{wish.why}; once more, as nothing came of the first")


def _list_steps_now(life: NodeRecord, wish: DesiredState, terms: NodeContext) -> tuple[OrderStep, ...]:
    state = life.seen.state
    if wish.order is Order.ON:
        return list_steps(Order.ON, state, terms)
    return list_steps(wish.order, state, terms) if state is NodeState.ON else ()


@dataclass(frozen=True)
class NodeRecords:
    """Every node's life by its name, and by the name of the hardware how long such nodes take."""

    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    times: Mapping[str, MeasuredDurations] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeContexts:
    """What all lives of a site go by: the machines, and terms whose times are those that were learned."""

    machines: Mapping[str, InventoryNode]
    terms: NodeContext

    def of(self, node: str, times: Mapping[str, MeasuredDurations]) -> NodeContext:
        """Return the terms of a node."""
        hardware = self.machines[node].hardware
        return NodeContext(hardware, self.terms.chance, times.get(hardware.name, NO_DURATIONS), self.terms.conduct)


def record_poll(
    lives: NodeRecords,
    looks: Mapping[str, NodeObservation],
    words: Mapping[str, SchedulerState],
    now: Instant,
    rules: NodeContexts,
) -> NodeRecords:
    """Return the lives after a look at the nodes, with the scheduler's words, and with what was learned from both."""
    nodes, times = {}, dict(lives.times)
    for node, look in looks.items():
        terms = rules.of(node, lives.times)
        before = lives.nodes.get(node) or NodeRecord(node)
        after = apply_event(apply_event(before, SchedulerReport(words.get(node)), now, terms), look, now, terms)
        if after.took is not None and after.took is not before.took:
            name = terms.hardware.name
            times[name] = times.get(name, NO_DURATIONS).learn(after.took)
        nodes[node] = apply_event(after, TimePassed(), now, terms)
    return NodeRecords({**lives.nodes, **nodes}, times)


def find_due_orders(lives: NodeRecords, now: Instant, rules: NodeContexts) -> tuple[tuple[NodeRecord, DueOrder], ...]:
    """Return what is due of each node, those that are to wake first."""
    found = ((life, find_due_order(life, now, rules.of(node, lives.times))) for node, life in lives.nodes.items())
    wanted = [(life, each) for life, each in found if each is not None]
    return tuple(sorted(wanted, key=lambda pair: pair[1].order is not Order.ON))


def make_effect(life: NodeRecord, due: DueOrder, now: Instant) -> Effect:
    """Return what is asked of the door, with what the decision rests on."""
    inputs: list[tuple[str, float | str]] = [
        ("way", due.way),
        ("state", str(life.seen.state)),
        ("seen_s_ago", round(now.monotonic_s - life.seen.at_s, 1)),
        ("tries", life.effort.tries),
    ]
    if life.seen.watts is not None:
        inputs.append(("watts", life.seen.watts))
    return Effect(life.node, str(due.order), due.by, due.why, tuple(inputs))


def sort_silent_first(lives: NodeRecords, nodes: Iterable[str]) -> list[str]:
    """Return the nodes in the order in which to ask them: those that did not answer the last time first."""
    unknown = {node for node, life in lives.nodes.items() if life.seen.state is NodeState.UNKNOWN}
    return sorted(nodes, key=lambda node: node not in unknown)
