"""How many nodes of a pool are to be awake: the capacity policy, asked as the simulator asks it."""

import copy
from dataclasses import dataclass, replace

import numpy as np

from offpeak.settings.capacity import CapacitySettings
from offpeak.text import counted
from plugin.capacity.need import NeedRecord, new_record
from plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from plugin.capacity.sleepers import expect_needs
from power.capacities import capacity_named
from power.live.memory import PoolMemory
from power.live.pool_state import PoolState
from power.live.site import PowerSite, Sight


@dataclass(frozen=True, eq=False)
class PoolTargets:
    """So many nodes are to be awake (`floor`), so many idle ones ready (`reserve`) or left awake (`keep`), and why."""

    capacity: CapacityPolicy
    row: int
    floor: int
    reserve: int
    keep: int
    why: str
    memory: PoolMemory


def policy_of(pool: PoolState, site: PowerSite, sight: Sight) -> CapacityPolicy:
    """Return the policy that the settings name, made for this pool; BadInput where it cannot be."""
    in_use = float(pool.busy.sum()) / max(pool.usable_nodes * pool.units_per_node, 1)
    fleet = Fleet(
        pool.usable_nodes, pool.units_per_node, pool.node_class, in_use, sight.price_at_s, sight.price_per_mwh
    )
    return capacity_named(site.agent.capacity, fleet, _bounds(site, pool.usable_nodes))


def _bounds(site: PowerSite, nodes: int) -> CapacitySettings:
    """Return the bounds of a pool of so many nodes, no looser than the agent's own."""
    per_day = [most for most in (site.bounds.cycles_per_day, site.agent.cycles_per_day) if most]
    keep_hot = min(site.bounds.keep_hot, nodes)
    return replace(site.bounds, keep_hot=keep_hot, cycles_per_day=min(per_day, default=0))


def targets_of(pool: PoolState, capacity: CapacityPolicy, before: PoolMemory | None, now_s: int) -> PoolTargets:
    """Return the targets that hold now; a policy that decides each period is asked when its last word is so old."""
    if before is not None and before.policy != capacity.name:
        before = None
    rules, course = capacity.rules, capacity.course
    row = max(int(np.searchsorted(course.at_s, now_s, side="right")) - 1, 0)
    is_due = before is None or not before.decided_s <= now_s < before.decided_s + rules.period_s
    memory = before if before is not None and not is_due else _decided(pool, capacity, row, before, now_s)
    targets, keep = memory.targets, 0
    if rules.worth_s:
        keep = targets.awake
    elif not rules.on_demand:
        targets = replace(targets, awake=_followed(pool, capacity, targets.awake))
    floor = max(rules.keep_hot, 0 if rules.on_demand else targets.awake)
    reserve = targets.reserve if rules.period_s else int(course.reserve[row])
    why = targets.why or _why(pool, capacity, max(reserve, keep))
    return PoolTargets(capacity, row, floor, reserve, keep, why, replace(memory, targets=targets))


def _decided(pool: PoolState, capacity: CapacityPolicy, row: int, before: PoolMemory | None, now_s: int) -> PoolMemory:
    """Return what the policy decides now. A forecast's `awake` are the idle nodes that stay so."""
    if capacity.decide is not None:
        return PoolMemory(capacity.name, now_s, capacity.decide(pool.snapshot))
    if capacity.rules.worth_s:
        return _forecast(pool, capacity, before, now_s)
    awake = before.targets.awake if before is not None else int(capacity.course.target[row])
    return PoolMemory(capacity.name, now_s, CapacityTargets(awake))


def _forecast(pool: PoolState, capacity: CapacityPolicy, before: PoolMemory | None, now_s: int) -> PoolMemory:
    nodes = pool.usable_nodes
    known = before.needs if before is not None and before.needs is not None else None
    same = known is not None and len(known.used_s) == nodes
    needs: NeedRecord = copy.deepcopy(known) if same and known is not None else new_record(nodes)
    needed = min(-(-pool.snapshot.units_in_use // pool.units_per_node), nodes)
    keep, reserve = expect_needs(needs, now_s, needed, capacity.rules.worth_s)
    return PoolMemory(capacity.name, now_s, CapacityTargets(int(keep), int(reserve)), needs)


def _followed(pool: PoolState, capacity: CapacityPolicy, awake: int) -> int:
    """Return the target as it follows the queue: between two levels, or up for a job wider than it.

    Source: Lawson and Smirni, ICS 2005, sections 3.2 and 3.3.1.
    """
    rules, per_node = capacity.rules, pool.units_per_node
    widest = -(-int(pool.snapshot.queued.size.max(initial=0)) // per_node)
    if rules.low > 0:
        in_use = int(((pool.busy > 0) & (pool.state == 0)).sum())
        if awake > rules.low and in_use > rules.low:
            return awake
        return rules.low if widest <= rules.low else pool.usable_nodes
    return max(awake, widest) if rules.raise_for_wide else awake


def _why(pool: PoolState, capacity: CapacityPolicy, ready: int) -> str:
    idle = int(pool.is_idle.sum())
    stay = f", {ready} of them stay ready" if ready else ""
    return f"{capacity.name}: {counted(idle, 'idle node')}{stay}"
