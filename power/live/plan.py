"""The power loop's plan: wishes for the life cycle, words, and what the scheduler is told, with every reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from offpeak.door.effect import SCHEDULER, US
from plugin.scheduler.node import OURS, Node
from plugin.scheduler.port import NodeChange
from power.drivers.port import Order
from power.lifecycle.life import ASLEEP, NodeLife, NodeState, Wish, Word, is_goal
from power.live.ahead import maintained
from power.live.memory import Leaving, PowerMemory
from power.live.next_step import Step, Want, next_step
from power.live.pools_plan import PoolsPlan, plan_pools
from power.live.site import PowerSite, Sight
from power.live.words import is_awaited, words_of

CHANGES = (NodeChange.RESUME, NodeChange.OPEN, NodeChange.POWER_UP, NodeChange.POWER_DOWN, NodeChange.CLOSE)
"""What the scheduler is told, in this order: first what gives jobs nodes."""


WHAT = {
    NodeChange.RESUME: "is tried again",
    NodeChange.OPEN: "is open to jobs",
    NodeChange.POWER_UP: "wakes",
    NodeChange.POWER_DOWN: "is counted as powered down",
    NodeChange.CLOSE: "sleeps",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What the scheduler is to be told of a node, with the reason that admins see there."""

    node: str
    change: NodeChange
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What changes for a node, and why, in words and numbers."""

    node: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} {self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Move:
    """A node's step with the wish that it makes, the one before, and why; `said_before` is the step's reason then."""

    node: Node
    state: NodeState
    step: Step
    wish: Wish | None
    before: Wish | None
    why: str
    said_before: str

    @property
    def wishes_anew(self) -> bool:
        """Whether the life cycle is to be told of another wish."""
        return _face(self.wish) != _face(self.before)

    @property
    def told(self) -> Told | None:
        """What the scheduler is to be told, if anything."""
        change = self.step.change
        return None if change is None else Told(self.node.name, change, f"{OURS}: {self.why}")

    @property
    def is_news(self) -> bool:
        """Whether something changes for the node, or it is given up, that was not said in the cycle before.

        What the door refuses, as it does in shadow mode, is due again in each cycle.
        """
        is_there = self.wish is not None and is_goal(self.wish.order, self.state)
        changes = self.step.change is not None or (self.wishes_anew and not is_there) or self.node.failed
        return changes and self.step.why != self.said_before

    @property
    def what(self) -> str:
        """What is done of it, for people."""
        if self.step.change is not None:
            return WHAT[self.step.change]
        if self.wish is None or not self.wishes_anew:
            return "is left alone"
        return "is woken" if self.wish.order is Order.ON else "is put to sleep"


@dataclass(frozen=True)
class PowerPlan:
    """`wishes` are those that change, None where nothing is wanted any more; `troubles` are messages with hints."""

    wishes: Mapping[str, Wish | None]
    words: Mapping[str, Word]
    changes: tuple[Told, ...]
    decisions: tuple[Decision, ...]
    memory: PowerMemory
    troubles: tuple[tuple[str, str], ...] = ()


def plan_power(sight: Sight, *, site: PowerSite, memory: PowerMemory) -> PowerPlan:
    """Return what is to be done now; `memory` is that of the last cycle, or empty. No I/O, no clock."""
    pools = plan_pools(sight, site=site, memory=memory)
    untouched = maintained(sight.view)
    nodes = dict(pools.memory.nodes)
    moves = [
        _move(node, _step(node, pools, sight, untouched), pools, sight)
        for node in sight.view.nodes
        if node.name in site.opted_in
    ]
    for move in moves:
        nodes[move.node.name] = replace(nodes[move.node.name], why=move.step.why)
    told = [move.told for move in moves if move.told is not None]
    return PowerPlan(
        wishes={move.node.name: move.wish for move in moves if move.wishes_anew},
        words=words_of(node for node in sight.view.nodes if node.name in site.opted_in),
        changes=tuple(sorted(told, key=lambda each: CHANGES.index(each.change))),
        decisions=tuple(Decision(move.node.name, move.what, move.why) for move in moves if move.is_news),
        memory=replace(pools.memory, nodes=nodes),
        troubles=pools.troubles,
    )


def _step(node: Node, pools: PoolsPlan, sight: Sight, untouched: frozenset[str]) -> Step:
    """Return the step that is due of a node; UP is wanted of all that are up and not told to leave."""
    life, leaving = sight.life(node.name), pools.memory.nodes[node.name].leaving
    if node.name in untouched and not is_awaited(node):
        return Step(why="it is in maintenance")
    is_asleep = life is not None and life.seen.state in ASLEEP
    sleeps_on = is_asleep and node.name not in pools.wake
    want = Want.ASLEEP if leaving is not None or sleeps_on else Want.UP
    return next_step(node, life, want, now=sight.now, order=_order(life, leaving))


def _order(life: NodeLife | None, leaving: Leaving | None) -> Order:
    """Return by which order the node goes, or went, to sleep."""
    if leaving is not None:
        return leaving.order
    wish = None if life is None else life.wish
    return wish.order if wish is not None and wish.order is not Order.ON else Order.SOFT_OFF


def _move(node: Node, step: Step, pools: PoolsPlan, sight: Sight) -> Move:
    memory, life = pools.memory.nodes[node.name], sight.life(node.name)
    before = None if life is None else life.wish
    leaving = memory.leaving
    why = leaving.why if leaving is not None and step.change in (None, NodeChange.CLOSE) else step.why
    why = pools.wake.get(node.name, why) if step.change in (NodeChange.POWER_UP, NodeChange.OPEN) else why
    wish = before if step.order is None else Wish(step.order, step.by, sight.now.unix_s, why)
    if step.order is None and before is not None and before.by in (US, SCHEDULER) and not _wakes_still(node, life):
        wish = None
    state = NodeState.UNKNOWN if life is None else life.seen.state
    return Move(node, state, step, wish, before, why, memory.why)


def _face(wish: Wish | None) -> tuple[Order, str] | None:
    return None if wish is None else (wish.order, wish.by)


def _wakes_still(node: Node, life: NodeLife | None) -> bool:
    """Whether it is being woken, and is not seen or was given up by the scheduler only: that is waited for."""
    if life is None or life.wish is None or life.wish.order is not Order.ON:
        return False
    return life.seen.state is NodeState.UNKNOWN or (node.failed and life.effort.course is not None)
