"""Who of a pool is to fall asleep and who is to wake: the policy's targets, and what is known to be needed soon."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, DEPTHS, asleep
from plugin.capacity.rules import NEVER, NodeTable
from plugin.capacity.sleepers import DAY_S, NO_DEPTH, pick_sleepers
from power.drivers.port import Order
from power.live.ahead import Ahead
from power.live.memory import NodeMemory, PoolMemory
from power.live.pool_state import PoolState
from power.live.site import ORDER_OF
from power.live.targets import PoolTargets
from power.live.times import duration_text
from sim_backend.engine.power import bitmap


@dataclass(frozen=True)
class PoolPlan:
    """Of one pool: who is to sleep, by which order and why; who is to wake, and why; what is remembered."""

    sleep: Mapping[str, tuple[Order, str]]
    wake: Mapping[str, str]
    memory: PoolMemory


@dataclass(frozen=True)
class Choice:
    """Which nodes may be put to sleep now, and how many at most; which can be woken or called back, the best first."""

    may_sleep: frozenset[str]
    most: int
    may_wake: tuple[str, ...]


def pool_plan(
    pool: PoolState, targets: PoolTargets, ahead: Ahead, nodes: Mapping[str, NodeMemory], choice: Choice
) -> PoolPlan:
    """Return the plan. While nodes are missing none is put to sleep."""
    missing = _missing(pool, targets, ahead)
    if missing > 0:
        why = ahead.why if ahead.idle_now and ahead.why else targets.why
        return PoolPlan({}, dict.fromkeys(choice.may_wake[:missing], why), targets.memory)
    return PoolPlan(_sleepers(pool, targets, ahead, nodes, choice), {}, targets.memory)


def _missing(pool: PoolState, targets: PoolTargets, ahead: Ahead) -> int:
    """Return how many nodes have to be awake besides those that are, or come up."""
    active, rising = int((pool.state == ACTIVE).sum()), int(pool.rising.sum())
    ready = pool.is_idle | (pool.rising & (pool.busy == 0))
    free = ready & ~_spoken_for(pool, ahead)
    return max(targets.floor - active - rising, targets.reserve - int(ready.sum()), ahead.idle_now - int(free.sum()))


def _spoken_for(pool: PoolState, ahead: Ahead) -> NDArray[np.bool_]:
    """Return which nodes are kept for a reservation or a planned start: no other job gets them."""
    return np.array([node.name in ahead.spoken_for for node in pool.pool.nodes], dtype=np.bool_)


def _sleepers(
    pool: PoolState, targets: PoolTargets, ahead: Ahead, nodes: Mapping[str, NodeMemory], choice: Choice
) -> dict[str, tuple[Order, str]]:
    """Return the nodes beyond those that have to be awake, chosen as in a replay."""
    rules, course = targets.capacity.rules, targets.capacity.course
    if (course.after_s[targets.row] == NEVER).all():
        return {}
    idle, free = int(pool.is_idle.sum()), int((pool.is_idle & ~_spoken_for(pool, ahead)).sum())
    spare = min(idle - max(targets.reserve, targets.keep), free - ahead.idle_kept)
    allowed = min(int((pool.state == ACTIVE).sum()) - targets.floor, spare, choice.most)
    depth = np.full(len(pool.state), NO_DEPTH)
    table = node_table(pool, nodes, choice.may_sleep)
    now_s = pool.snapshot.now_s
    pick_sleepers(table, rules, course, targets.row, max(allowed, 0), now_s, not rules.on_demand, depth)
    return {
        node.name: (ORDER_OF[each], _why_sleeps(pool, targets, now_s - nodes[node.name].idle_since_s))
        for node, each in zip(pool.pool.nodes, depth.tolist(), strict=True)
        if each in ORDER_OF
    }


def node_table(pool: PoolState, nodes: Mapping[str, NodeMemory], may_sleep: frozenset[str]) -> NodeTable:
    """Return the pool's nodes as the kernels take them; cycles count within the last 24 hours."""
    names = [node.name for node in pool.pool.nodes]
    now_s = pool.snapshot.now_s

    def column(values: list[int]) -> Int64:
        return np.array(values, dtype=np.int64)

    return NodeTable(
        state=pool.state.copy(),
        busy=pool.busy.copy(),
        idle=bitmap(pool.is_idle & np.array([name in may_sleep for name in names])),
        idle_since_s=column([nodes[name].idle_since_s for name in names]),
        woken_s=column([nodes[name].woken_s for name in names]),
        slept_s=column([max(nodes[name].slept_s, default=0) for name in names]),
        sleeps=column([sum(now_s - at_s < DAY_S for at_s in nodes[name].slept_s) for name in names]),
        day=np.full(len(names), now_s // DAY_S),
    )


def lightest_first(pool: PoolState, names: frozenset[str]) -> list[str]:
    """Return the sleeping nodes of these, the lightest sleepers first, and of them those that sleep last."""
    found = []
    for depth in range(len(DEPTHS)):
        sleeping = pool.state == asleep(depth)
        found += [
            node.name for node, each in zip(pool.pool.nodes, sleeping, strict=True) if each and node.name in names
        ]
    return found


def _why_sleeps(pool: PoolState, targets: PoolTargets, idle_s: int) -> str:
    pays_s = pool.pays_s
    return f"{targets.why}; idle {duration_text(idle_s)}; break-even {duration_text(pays_s)}"
