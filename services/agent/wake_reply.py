"""The agent's reply to a scheduler that asks for nodes: it promises only what it can keep.

`deploy/slurm/offpeak-resume` wakes the nodes that are not accepted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offpeak.door.effect import SCHEDULER, Effect, Refusal
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder
from plugin.scheduler.node import Node, NodeUse
from power.lifecycle.decisions import describe_fault, find_due_order, make_effect
from power.lifecycle.node_context import NodeContext
from power.lifecycle.node_record import ASLEEP, DesiredState, DesiredStateChange, Instant, NodeRecord, NodeState
from power.lifecycle.transitions import apply_event

PACING = frozenset({"wakes", "per_rack", "wake_ramp"})
"""The door's limits that pass by themselves within minutes."""
LOOKED_AT_AGAIN = "observed_fresh"
"""The limit that the next look lifts: the state is known, and was read a while ago."""


@dataclass(frozen=True)
class WakeReply:
    """What becomes of each node, with why: `accepted` are woken by the agent; of these `left` stay off on purpose, and
    `waiting` wait for the door's pace. `refused` are not promised."""

    accepted: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the answer. One that refuses has no "nodes", by which older programs know that all are accepted."""
        kinds = {"left": dict(self.left), "waiting": dict(self.waiting), "refused": dict(self.refused)}
        said: dict[str, Any] = {kind: nodes for kind, nodes in kinds.items() if nodes}
        if not self.refused:
            return {"nodes": list(self.accepted), **said}
        node, why = next(iter(self.refused.items()))
        more = f" (and {len(self.refused) - 1} more)" if len(self.refused) > 1 else ""
        error = {"error": f"{node}: {why}{more}", "hint": "the resume program has to wake it"}
        return {**error, "accepted": list(self.accepted), **said}


@dataclass(frozen=True)
class WakeOutlook:
    """What is known when the scheduler asks. `trouble` is why nothing at all can be promised, "" if nothing is wrong.

    `nodes` are the scheduler's by its latest answer, at `view_unix_s`. `terms_of` are those of a machine, `foresee` is
    the door's.
    """

    trouble: str
    now: Instant
    machines: Mapping[str, InventoryNode]
    lives: Mapping[str, NodeRecord]
    nodes: Mapping[str, Node]
    view_unix_s: float
    terms_of: Callable[[str], NodeContext]
    foresee: Callable[[Effect], Refusal | None]


def make_wake_reply(names: Iterable[str], outlook: WakeOutlook, asked_unix_s: float | None = None) -> WakeReply:
    """Return what is promised of the nodes; `asked_unix_s` is when they were asked for, where it is not for the first
    time: what the scheduler does not wait for any more since then is left as it is."""
    accepted: list[str] = []
    left, waiting, refused = dict[str, str](), dict[str, str](), dict[str, str]()
    for name in names:
        if why := _reason_to_leave(name, outlook, asked_unix_s):
            left[name] = why
        elif why := outlook.trouble or _reason_unknown(name, outlook):
            refused[name] = why
            continue
        elif refusal := _find_refusal(outlook.lives[name], outlook):
            if refusal.rule not in PACING or refusal.trouble:
                refused[name] = refusal.said
                continue
            waiting[name] = refusal.said
        accepted.append(name)
    return WakeReply(tuple(accepted), left, waiting, refused)


def _reason_to_leave(name: str, outlook: WakeOutlook, asked_unix_s: float | None) -> str:
    life, node = outlook.lives.get(name), outlook.nodes.get(name)
    if life is not None and life.hold is not None and life.hold.lasts(outlook.now.unix_s):
        return f"held by {life.hold.owner}: {life.hold.reason}"
    if asked_unix_s is None or node is None or outlook.view_unix_s <= asked_unix_s or node.use is NodeUse.UNKNOWN:
        return ""
    return "" if node.is_awaited else "the scheduler does not wait for it any more"


def _reason_unknown(name: str, outlook: WakeOutlook) -> str:
    life, node = outlook.lives.get(name), outlook.nodes.get(name)
    if name not in outlook.machines:
        return "is not ours to touch: it is not among nodes below [agent]"
    if node is None or node.use is NodeUse.UNKNOWN:
        return "the scheduler does not show it" if node is None else f"the scheduler says {node.native_state}"
    if life is None or life.observed.state is NodeState.UNKNOWN:
        return (
            f"its state is not known: {life.observed.problem}"
            if life and life.observed.problem
            else "its state is not known"
        )
    return "nobody has enrolled its BMC" if outlook.machines[name].enrolled is None else ""


def _find_refusal(life: NodeRecord, outlook: WakeOutlook) -> Refusal | None:
    """Return why a node whose state is known would not be woken now, None if it will be, or is up."""
    now, terms = outlook.now, outlook.terms_of(life.node)
    wish = DesiredState(NodeOrder.ON, SCHEDULER, now.unix_s, "the scheduler has it come up")
    life = apply_event(life, DesiredStateChange(wish), now, terms)
    if why := describe_fault(life):
        return Refusal("fault", why)
    course, effort = life.attempts.pending, life.attempts
    if life.observed.state not in ASLEEP or (course is not None and course.order is NodeOrder.ON):
        return None
    if now.monotonic_s < effort.next_try_s:
        return effort.refusal or Refusal("pause", f"tried {effort.tries} times, then a pause: {effort.failure}")
    order = find_due_order(life, now, terms)
    if order is None:
        return None if course is not None else Refusal("rungs", "its hardware has no way to wake it")
    refusal = outlook.foresee(make_effect(life, order, now))
    return None if refusal is not None and refusal.rule == LOOKED_AT_AGAIN else refusal
