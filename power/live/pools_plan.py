"""All pools of a site at one instant: who is to leave, who is to wake, and what is remembered of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE, FAILED, OFF, going_down
from power.live.ahead import Ahead, ahead_of, maintained
from power.live.candidates import Candidates, most_to_sleep
from power.live.memory import Leaving, NodeMemory, PoolMemory, PowerMemory
from power.live.pool_plan import PoolPlan, pool_plan
from power.live.pool_state import PoolState, pool_state
from power.live.pools import Pool, pools_of
from power.live.remember import remembered
from power.live.site import PowerSite, Sight
from power.live.standing import standing
from power.live.targets import policy_of, targets_of


@dataclass(frozen=True)
class PoolsPlan:
    """Who is to wake, and why; the memory, in which those that leave are marked; and why a pool's nodes stay up."""

    wake: Mapping[str, str]
    memory: PowerMemory
    troubles: tuple[tuple[str, str], ...]


def plan_pools(sight: Sight, *, site: PowerSite, memory: PowerMemory) -> PoolsPlan:
    """Return the plan of all pools."""
    known, states = _seen(sight, memory)
    wake: dict[str, str] = {}
    pools: dict[str, PoolMemory] = {}
    troubles: list[tuple[str, str]] = []
    for pool in pools_of(sight.view.nodes, sight.view.jobs):
        if all(states[node.name] == FAILED for node in pool.nodes):
            continue
        try:
            candidates = Candidates(site, sight, known, maintained(sight.view))
            plan = _plan_pool(pool, candidates, states, memory.pools.get(pool.name))
        except BadInput as problem:
            troubles.append((f"pool {pool.name}: none of its nodes sleeps: {problem}", problem.hint))
            known = {**known, **_all_stay(pool, known)}
            continue
        pools[pool.name] = plan.memory
        wake.update(plan.wake)
        known = {**known, **_leaving(plan, known, sight.now_s)}
    return PoolsPlan(wake, PowerMemory(known, pools), tuple(troubles))


def _seen(sight: Sight, memory: PowerMemory) -> tuple[dict[str, NodeMemory], dict[str, int]]:
    """Return what is known of all nodes now, and how they stand; who was told to leave does not count as up."""
    known, states = {}, {}
    for node in sight.view.nodes:
        life = sight.life(node.name)
        state = standing(node, life, sight.now)
        known[node.name] = remembered(node, life, memory.nodes.get(node.name), state, sight.now_s)
        is_leaving = state == ACTIVE and known[node.name].leaving is not None
        states[node.name] = going_down(OFF) if is_leaving else state
    return known, states


def _plan_pool(pool: Pool, candidates: Candidates, states: Mapping[str, int], before: PoolMemory | None) -> PoolPlan:
    site, sight = candidates.site, candidates.sight
    state = pool_state(pool, states, site=site, sight=sight)
    ahead = ahead_of(state, site, sight)
    targets = targets_of(state, policy_of(state, site, sight), before, sight.now_s)
    most = most_to_sleep(candidates, sight.view.nodes, states)
    plan = pool_plan(state, targets, ahead, candidates.nodes, candidates.choice(state, ahead, most))
    return replace(plan, wake={**plan.wake, **_asked(state, candidates, ahead)})


def _asked(state: PoolState, candidates: Candidates, ahead: Ahead) -> dict[str, str]:
    """Return the nodes that are asked for by name, with why."""
    found = {node.name: candidates.to_wake(node.name, ahead) for node in state.pool.nodes if candidates.is_ours(node)}
    return {name: f"for {why}" for name, why in found.items() if why}


def _leaving(plan: PoolPlan, known: Mapping[str, NodeMemory], now_s: int) -> dict[str, NodeMemory]:
    """Return the memories of those that leave from now on, and of those that are called back."""
    gone = {name: replace(known[name], leaving=Leaving(now_s, order, why)) for name, (order, why) in plan.sleep.items()}
    back = {name: replace(known[name], leaving=None) for name in plan.wake if known[name].leaving is not None}
    return gone | back


def _all_stay(pool: Pool, known: Mapping[str, NodeMemory]) -> dict[str, NodeMemory]:
    return {node.name: replace(known[node.name], leaving=None) for node in pool.nodes}
