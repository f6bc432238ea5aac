"""Takes a poll of all nodes into their records and says which orders are due, or why none is. No effects, no clock.

Whether a due order is given, the door decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.door.effect import ADMIN, AGENT, Effect
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.lifecycle.node_context import NO_DURATIONS, MeasuredDurations, NodeContext
from offpeak.power.lifecycle.node_record import (
    ASLEEP,
    DesiredState,
    Instant,
    NodeObservation,
    NodeRecord,
    PendingOrder,
    SchedulerReport,
    TimePassed,
    is_goal,
)
from offpeak.power.lifecycle.transitions import OrderStep, apply_event, list_steps, order_timeout_s


@dataclass(frozen=True, slots=True)
class DueOrder:
    """An order that is due, its way, its owner, and the reason."""

    order: NodeOrder
    way: str
    by: str
    why: str


def find_due_order(record: NodeRecord, now: Instant, context: NodeContext) -> DueOrder | None:
    """Return the order that is due now, None if there is none: a node in an unknown state gets no order."""
    desired = record.desired
    if desired is None or find_obstacle(record, now):
        return None
    pending = record.attempts.pending
    if pending is not None:
        return _repeat_wake(record, pending, now, context)
    steps = _list_steps_now(record, desired, context)
    if not steps:
        return None
    step = steps[min(record.attempts.step, len(steps) - 1)]
    return DueOrder(step.order, step.way, desired.by, desired.why)


def find_obstacle(record: NodeRecord, now: Instant) -> str:
    """Return why the node gets no order now, "" if it may get one."""
    desired = record.desired
    if desired is None or is_goal(desired.order, record.observed.state):
        return "it has no desired state" if desired is None else "it is in its desired state"
    return (
        _find_other_owner(record, desired, now)
        or _find_obstacle_in_state(record, desired)
        or _describe_pause(record, now)
    )


def describe_fault(record: NodeRecord) -> str:
    """Return the fault that the operator has to resolve, "" if there is none or the agent tries again by itself."""
    fault = record.fault
    return "" if fault is None or fault.ours else f"{fault.what}: {fault.reason}"


def _find_other_owner(record: NodeRecord, desired: DesiredState, now: Instant) -> str:
    hold = record.hold
    if hold is not None and hold.lasts(now.unix_s) and desired.by != f"{ADMIN}{hold.owner}":
        return f"held by {hold.owner}: {hold.reason}"
    if why := describe_fault(record):
        return why
    if desired.by == AGENT and now.monotonic_s < record.paused_until_s:
        return "another program or person changed it: offpeak leaves it alone for a while"
    return ""


def _find_obstacle_in_state(record: NodeRecord, desired: DesiredState) -> str:
    if record.observed.state is NodeState.UNKNOWN:
        return (
            f"its state is not known: {record.observed.problem}" if record.observed.problem else "it was not polled yet"
        )
    if desired.order is not NodeOrder.ON and record.scheduler_state is SchedulerState.BUSY:
        return "a job runs there"
    return ""


def _describe_pause(record: NodeRecord, now: Instant) -> str:
    attempts = record.attempts
    if now.monotonic_s >= attempts.next_try_s:
        return ""
    if attempts.refusal is not None:
        return f"the door refused it ({attempts.refusal.rule}): {attempts.refusal.message}"
    return f"tried {attempts.tries} times, then a pause: {attempts.failure}"


def _repeat_wake(record: NodeRecord, pending: PendingOrder, now: Instant, context: NodeContext) -> DueOrder | None:
    """Return the ON that is sent once more: some BMCs accept it while the node still shuts down, and forget it."""
    desired = record.desired
    if desired is None or desired.order is not NodeOrder.ON or pending.order is not NodeOrder.ON or pending.sent > 1:
        return None
    early = now.monotonic_s - pending.sent_s < order_timeout_s(pending, context) / 2
    if early or record.observed.state not in ASLEEP:
        return None
    return DueOrder(NodeOrder.ON, pending.way, desired.by, f"{desired.why}; sent again, as the first had no effect")


def _list_steps_now(record: NodeRecord, desired: DesiredState, context: NodeContext) -> tuple[OrderStep, ...]:
    state = record.observed.state
    if desired.order is NodeOrder.ON:
        return list_steps(NodeOrder.ON, state, context)
    return list_steps(desired.order, state, context) if state is NodeState.ON else ()


@dataclass(frozen=True)
class NodeRecords:
    """The records by node, and the measured durations by the name of the hardware."""

    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    times: Mapping[str, MeasuredDurations] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeContexts:
    """The contexts of all nodes of a site: the machines, and the retry policy."""

    machines: Mapping[str, InventoryNode]
    context: NodeContext

    def of(self, node: str, times: Mapping[str, MeasuredDurations]) -> NodeContext:
        """Return the context of a node, with the measured durations of its hardware."""
        hardware = self.machines[node].hardware
        return NodeContext(hardware, self.context.chance, times.get(hardware.name, NO_DURATIONS), self.context.retry)


def record_poll(
    records: NodeRecords,
    observations: Mapping[str, NodeObservation],
    scheduler_states: Mapping[str, SchedulerState],
    now: Instant,
    contexts: NodeContexts,
) -> NodeRecords:
    """Return the records and the measured durations after a poll and the scheduler's report."""
    nodes, times = {}, dict(records.times)
    for node, observation in observations.items():
        context = contexts.of(node, records.times)
        before = records.nodes.get(node) or NodeRecord(node)
        after = apply_event(
            apply_event(before, SchedulerReport(scheduler_states.get(node)), now, context), observation, now, context
        )
        if after.measured is not None and after.measured is not before.measured:
            name = context.hardware.name
            times[name] = times.get(name, NO_DURATIONS).learn(after.measured)
        nodes[node] = apply_event(after, TimePassed(), now, context)
    return NodeRecords({**records.nodes, **nodes}, times)


def find_due_orders(
    records: NodeRecords, now: Instant, contexts: NodeContexts
) -> tuple[tuple[NodeRecord, DueOrder], ...]:
    """Return the due orders, wakes first."""
    found = (
        (record, find_due_order(record, now, contexts.of(node, records.times)))
        for node, record in records.nodes.items()
    )
    wanted = [(record, order) for record, order in found if order is not None]
    return tuple(sorted(wanted, key=lambda pair: pair[1].order is not NodeOrder.ON))


def make_effect(record: NodeRecord, due: DueOrder, now: Instant) -> Effect:
    """Return the effect for the door, with the inputs of the decision."""
    inputs: list[tuple[str, float | str]] = [
        ("way", due.way),
        ("state", str(record.observed.state)),
        ("seen_s_ago", round(now.monotonic_s - record.observed.at_s, 1)),
        ("tries", record.attempts.tries),
    ]
    if record.observed.watts is not None:
        inputs.append(("watts", record.observed.watts))
    return Effect(record.node, due.order, due.by, due.why, tuple(inputs))


def sort_silent_first(records: NodeRecords, nodes: Iterable[str]) -> list[str]:
    """Return the nodes in polling order: those that did not answer the last poll first."""
    unknown = {node for node, record in records.nodes.items() if record.observed.state is NodeState.UNKNOWN}
    return sorted(nodes, key=lambda node: node not in unknown)
