"""The agent's reply to a scheduler that requests nodes: it promises only the wakes that it can keep.

`deploy/slurm/offpeak-resume` wakes the nodes that are not accepted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offpeak.door.effect import SCHEDULER, Effect, Refusal
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, NodeState
from plugin.scheduler.node import Node, NodeUse
from power.lifecycle.decisions import describe_fault, find_due_order, make_effect
from power.lifecycle.node_context import NodeContext
from power.lifecycle.node_record import ASLEEP, DesiredState, DesiredStateChange, Instant, NodeRecord
from power.lifecycle.transitions import apply_event

PACING = frozenset({"wakes", "per_rack", "wake_ramp"})
"""The limits of the door that end by themselves within minutes."""
POLLED_AGAIN = "observed_fresh"
"""The limit that the next poll lifts: the state is known, and was read a while ago."""


@dataclass(frozen=True)
class WakeReply:
    """The decision about each node with its reason.

    The agent wakes `accepted` nodes; of these `left` stay off on purpose, and `waiting` wait for the door's pace. It
    does not promise to wake `refused` nodes.
    """

    accepted: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the reply. A refusal has no "nodes", by which older programs know that all nodes are accepted."""
        kinds = {"left": dict(self.left), "waiting": dict(self.waiting), "refused": dict(self.refused)}
        reply: dict[str, Any] = {kind: nodes for kind, nodes in kinds.items() if nodes}
        if not self.refused:
            return {"nodes": list(self.accepted), **reply}
        node, why = next(iter(self.refused.items()))
        more = f" (and {len(self.refused) - 1} more)" if len(self.refused) > 1 else ""
        error = {"error": f"{node}: {why}{more}", "hint": "the resume program has to wake it"}
        return {**error, "accepted": list(self.accepted), **reply}


@dataclass(frozen=True)
class WakeOutlook:
    """The state of the site when the scheduler requests nodes.

    `problem` is why no wake can be promised, "" if nothing is wrong. `nodes` are the scheduler's by its latest view, at
    `view_unix_s`. `context_of` gives the context of a node, and `foresee` is that of the door.
    """

    problem: str
    now: Instant
    machines: Mapping[str, InventoryNode]
    records: Mapping[str, NodeRecord]
    nodes: Mapping[str, Node]
    view_unix_s: float
    context_of: Callable[[str], NodeContext]
    foresee: Callable[[Effect], Refusal | None]


def make_wake_reply(names: Iterable[str], outlook: WakeOutlook, requested_unix_s: float | None = None) -> WakeReply:
    """Return the wakes that are promised.

    `requested_unix_s` is the first request for the nodes, if this is a repetition: a node that the scheduler does not
    await since then is left as it is.
    """
    accepted: list[str] = []
    left, waiting, refused = dict[str, str](), dict[str, str](), dict[str, str]()
    for name in names:
        if why := _reason_to_leave(name, outlook, requested_unix_s):
            left[name] = why
        elif why := outlook.problem or _reason_unknown(name, outlook):
            refused[name] = why
            continue
        elif refusal := _find_refusal(outlook.records[name], outlook):
            if refusal.rule not in PACING or refusal.error_kind:
                refused[name] = refusal.message
                continue
            waiting[name] = refusal.message
        accepted.append(name)
    return WakeReply(tuple(accepted), left, waiting, refused)


def _reason_to_leave(name: str, outlook: WakeOutlook, requested_unix_s: float | None) -> str:
    record, node = outlook.records.get(name), outlook.nodes.get(name)
    if record is not None and record.hold is not None and record.hold.lasts(outlook.now.unix_s):
        return f"held by {record.hold.owner}: {record.hold.reason}"
    if requested_unix_s is None or outlook.view_unix_s <= requested_unix_s:
        return ""
    if node is None or node.use is NodeUse.UNKNOWN or node.is_awaited:
        return ""
    return "the scheduler does not wait for it any more"


def _reason_unknown(name: str, outlook: WakeOutlook) -> str:
    record, node = outlook.records.get(name), outlook.nodes.get(name)
    if name not in outlook.machines:
        return "is not ours to touch: it is not among nodes below [agent]"
    if node is None or node.use is NodeUse.UNKNOWN:
        return "the scheduler does not show it" if node is None else f"the scheduler says {node.native_state}"
    if record is None or record.observed.state is NodeState.UNKNOWN:
        problem = record.observed.problem if record else ""
        return f"its state is not known: {problem}" if problem else "its state is not known"
    return "nobody has enrolled its BMC" if outlook.machines[name].enrolled is None else ""


def _find_refusal(record: NodeRecord, outlook: WakeOutlook) -> Refusal | None:
    """Return why a node of known state would not be woken now, None if it would be, or is up."""
    now, context = outlook.now, outlook.context_of(record.node)
    desired = DesiredState(NodeOrder.ON, SCHEDULER, now.unix_s, "the scheduler has it come up")
    record = apply_event(record, DesiredStateChange(desired), now, context)
    if why := describe_fault(record):
        return Refusal("fault", why)
    attempts, pending = record.attempts, record.attempts.pending
    if record.observed.state not in ASLEEP or (pending is not None and pending.order is NodeOrder.ON):
        return None
    if now.monotonic_s < attempts.next_try_s:
        return attempts.refusal or Refusal("pause", f"tried {attempts.tries} times, then a pause: {attempts.failure}")
    order = find_due_order(record, now, context)
    if order is None:
        return None if pending is not None else Refusal("rungs", "its hardware has no way to wake it")
    refusal = outlook.foresee(make_effect(record, order, now))
    return None if refusal is not None and refusal.rule == POLLED_AGAIN else refusal
