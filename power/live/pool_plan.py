"""The plan of one pool: how many nodes must be awake, which idle nodes fall asleep, and which sleeping nodes wake.

The demand is that of reservations, planned starts and deferred jobs; the capacity policy, the same as in the simulator,
adds its targets. A job that the queue loop may yet delay demands no node. A job wakes nodes that can run it, and keeps
such nodes awake if others could not: a node of another kind would not help it. Nodes that are up for a job stay so
until the scheduler had time to start it. In a cycle that wakes a node, none of its kind falls asleep. While a job waits
whose request is not understood, no idle node of its partitions falls asleep.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.display import duration_text
from offpeak.door.effect import ADMIN
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, ORDER_OF_DEPTH, asleep
from offpeak.model.orders import NodeOrder
from offpeak.plugin.capacity.rules import NEVER
from offpeak.plugin.capacity.sleepers import (
    NO_DEPTH,
    SleepCriteria,
    pick_sleepers,
)
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, PoolMemory, PowerMemory, PowerSite
from offpeak.power.live.node_steps import ObservedNode
from offpeak.power.live.offer import CAPACITY, Offer, PoolOffer
from offpeak.power.live.pool_state import PoolState, PoolTargets

ASLEEP_BY_DEPTH = tuple(asleep(depth) for depth in range(len(DEPTHS)))


class LeastNodes(NamedTuple):
    """The nodes that the settings keep awake, whatever is needed: in all, and idle."""

    awake: int
    idle: int


@dataclass(frozen=True)
class PoolPlan:
    """The nodes to put to sleep, each with order and reason; the nodes to wake, with reason; the pool's new memory.

    If the capacity is limited, `offer` says how. The `withdrawn` nodes are closed to jobs, each for a reason.
    """

    sleep: Mapping[str, tuple[NodeOrder, str]]
    wake: Mapping[str, str]
    memory: PoolMemory
    least: LeastNodes
    offer: PoolOffer | None = None
    withdrawn: Mapping[str, str] = field(default_factory=dict)


def plan_pool(
    pool: PoolState,
    nodes: Mapping[str, ObservedNode],
    memory: PowerMemory,
    *,
    site: PowerSite,
    snapshot: ClusterSnapshot,
    most_to_sleep: int,
) -> PoolPlan:
    """Return the plan of a pool. While nodes are missing, none is put to sleep.

    `nodes` are those of all pools, by name; `most_to_sleep` of the site's nodes may begin to sleep now.
    """
    before = memory.pools.get(pool.pool.name)
    demand = find_upcoming_demand(pool, site, snapshot, served_s=before.served_s if before else {})
    share = float(pool.busy.sum()) / max(pool.usable_nodes * pool.units_per_node, 1)
    use = memory.past_use(pool.pool.name, snapshot.now_s).until(snapshot.now_s, share)
    capacity = site.make_policy(
        pool.sleep,
        snapshot,
        nodes=pool.usable_nodes,
        units_per_node=pool.units_per_node,
        load=use.load(share),
        share=pool.pool.share,
    )
    targets = PoolTargets.of(pool, capacity, before, snapshot.now_s)
    targets = replace(targets, memory=replace(targets.memory, use=use, served_s=demand.served_s))
    ours = [nodes[node.name] for node in pool.pool.nodes if nodes[node.name].is_ours]
    if site.agent.limit_capacity and targets.capacity.limits_nodes:
        return _plan_limited(pool, ours, targets, memory, site=site, snapshot=snapshot, most=most_to_sleep)
    needed = {
        node.name: f"for {why}"
        for node in ours
        if node.is_asleep and (why := demand.to_wake(node.name, site.lead_s(node.name, snapshot), snapshot.now_s))
    }
    needed = _call_back_instead(pool, ours, demand, memory, needed)
    missing = _count_missing(pool, targets, demand)
    if any(missing.values()):
        why = demand.why if demand.idle_now and demand.why else targets.why
        candidates = list_nodes_to_wake(pool, ours, memory, min_asleep_s=site.bounds.min_asleep_s)
        to_wake = _choose_nodes_to_wake(pool, [name for name in candidates if name not in needed], missing, len(needed))
        return PoolPlan({}, {**dict.fromkeys(to_wake, why), **needed}, targets.memory, find_least_nodes(pool, targets))
    wakes = {pool.cluster.pool_of_node[name] for name in needed}
    may_sleep = {
        node.name
        for node in ours
        if node.name not in demand.kept
        and pool.cluster.pool_of_node[node.name] not in wakes
        and _may_sleep(node, pool, demand, memory, site=site, snapshot=snapshot)
    }
    sleepers = _choose_sleepers(pool, targets, demand, memory, may_sleep, most=most_to_sleep)
    return PoolPlan(sleepers, needed, targets.memory, find_least_nodes(pool, targets))


def find_least_nodes(pool: PoolState, targets: PoolTargets) -> LeastNodes:
    """Return the nodes that the settings keep awake; what a policy decides by a forecast is left out."""
    rules, schedule = targets.capacity.rules, targets.capacity.schedule
    if targets.capacity.keeps_all_awake:
        return LeastNodes(pool.usable_nodes, 0)
    return LeastNodes(rules.keep_hot, 0 if rules.period_s else int(schedule.reserve[targets.row]))


@dataclass(frozen=True)
class NodeNeed:
    """When a node is needed (Unix seconds), and for what; `any_equal`: an equal node does as well."""

    at_s: int
    why: str
    any_equal: bool = False


@dataclass(frozen=True)
class UpcomingDemand:
    """The nodes that are needed soon: `nodes` by name, and a number of others by pool of the cluster model.

    `idle_now` idle nodes must be available now, `idle_kept` are worth keeping awake. `reserved` are the nodes that are
    needed by name so soon that no other job gets them. `kept` nodes stay awake if they are. `served_s`: as in the
    memory.
    """

    nodes: Mapping[str, NodeNeed] = field(default_factory=dict)
    idle_now: Mapping[int, int] = field(default_factory=dict)
    idle_kept: Mapping[int, int] = field(default_factory=dict)
    why: str = ""
    reserved: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    served_s: Mapping[str, int] = field(default_factory=dict)

    def to_wake(self, node: str, lead_s: int, now_s: int) -> str:
        """Return why the node must be woken now, "" if nothing needs it yet."""
        needed = self.nodes.get(node)
        return needed.why if needed is not None and needed.at_s - lead_s <= now_s else ""

    def keeps(self, node: str, within_s: float, now_s: int) -> bool:
        """Whether the node is needed so soon that it stays awake."""
        needed = self.nodes.get(node)
        return needed is not None and needed.at_s - now_s <= within_s


def find_upcoming_demand(
    pool: PoolState, site: PowerSite, snapshot: ClusterSnapshot, *, served_s: Mapping[str, int]
) -> UpcomingDemand:
    """Return the known demand for nodes of a pool in the near future; `served_s` is that of the last cycle."""
    now_s = snapshot.now_s
    names = {node.name for node in pool.pool.nodes}
    earliest: dict[str, NodeNeed] = {}
    needs = (
        *_list_needs_of_reservations(snapshot.view),
        *_list_needs_of_planned_starts(pool, now_s),
        *_list_needs_of_named_nodes(pool, now_s),
    )
    for name, needed in needs:
        if name in names and (name not in earliest or needed.at_s < earliest[name].at_s):
            earliest[name] = needed
    lead_s = max((site.lead_s(node.name, snapshot) for node in pool.pool.nodes[:1]), default=0)
    kept_s = pool.sleep.pays_s() + lead_s
    deferred = [(job.begin_s or 0, job) for job in pool.deferred]
    first_s, first = min(deferred, key=lambda pair: pair[0], default=(0, None))
    soon = [job for begin_s, job in deferred if begin_s - lead_s <= now_s]
    kept = [job for begin_s, job in deferred if begin_s - now_s <= kept_s]
    reserved = frozenset(name for name, needed in earliest.items() if needed.at_s - now_s <= kept_s)
    is_reserved = np.array([node.name in reserved for node in pool.pool.nodes], dtype=np.bool_)
    room = pool.free_room(is_reserved)
    idle_now: Counter[int] = Counter()
    for job in _unnamed_parts(pool, soon):
        idle_now.update(_count_nodes(room.take(job)))
    idle_kept, served_s = _count_idle_kept(pool, kept, is_reserved, site.start_patience_s, served_s)
    return UpcomingDemand(
        nodes=earliest,
        idle_now=idle_now,
        idle_kept=idle_kept,
        served_s=served_s,
        why=f"job {first.job_id} may start in {duration_text(first_s - now_s)}" if first else "",
        reserved=reserved,
        kept=_find_unclear_nodes(pool).union(*(job.required_hosts for job in pool.waiting)),
    )


def _unnamed_parts(pool: PoolState, jobs: Iterable[Job]) -> Iterable[Job]:
    """Yield the jobs without the nodes that they name: these are needed by name."""
    names = {node.name for node in pool.pool.nodes}
    for job in jobs:
        if (nodes := max(job.nodes, 1) - len(job.required_hosts & names)) > 0:
            yield job if nodes >= job.nodes else job._replace(nodes=nodes)


def _count_nodes(placed: Mapping[int, Sequence[int]]) -> dict[int, int]:
    return {pool: len(tasks) for pool, tasks in placed.items()}


def _count_idle_kept(
    pool: PoolState,
    deferred: Iterable[Job],
    is_reserved: NDArray[np.bool_],
    patience_s: int,
    served_s: Mapping[str, int],
) -> tuple[Counter[int], dict[str, int]]:
    """Return the idle nodes by pool that stay awake: for deferred jobs, for new ones, and for those that few nodes fit.

    A new job counts if it could start on free nodes. A job that only some of the nodes could run keeps those that idle,
    until enough of them have been up for `patience_s`; the second result is since when they are, by job.
    """
    room, now_s = pool.free_room(is_reserved), pool.snapshot.now_s
    free = pool.count_by_pool(pool.is_free)
    kept: Counter[int] = Counter()
    served: dict[str, int] = {}
    for job in _unnamed_parts(pool, deferred):
        kept.update(_count_nodes(room.take(job)))
    for job in _unnamed_parts(pool, pool.waiting):
        fitting = pool.cluster.candidate_pools(job)
        if _is_new(job, now_s, patience_s) and job.nodes <= sum(free[number] for number in fitting):
            kept.update(_count_nodes(room.take(job)))
        elif not job.hosts and job.request is not None and pool.is_selective(fitting):
            since_s = min(served_s.get(job.job_id, now_s), now_s)
            taken = _count_nodes(room.take(job, awake_only=True)) if now_s - since_s < patience_s else None
            if taken is None or sum(taken.values()) >= job.nodes:
                served[job.job_id] = since_s
            kept.update(taken or {})
    return kept, served


def _find_unclear_nodes(pool: PoolState) -> frozenset[str]:
    """Return the nodes of partitions in which a job waits that is not understood: it may need any of them."""
    unclear = {name for job in pool.waiting if job.is_unclear for name in job.partitions}
    return frozenset(node.name for node in pool.pool.nodes if not unclear.isdisjoint(node.partitions))


def _list_needs_of_reservations(view: SchedulerView) -> Iterable[tuple[str, NodeNeed]]:
    for reservation in view.reservations:
        if not reservation.maintenance and view.at_s < reservation.end_s:
            needed = NodeNeed(reservation.start_s, f"the reservation {reservation.name}")
            yield from ((name, needed) for name in reservation.nodes)


def _list_needs_of_planned_starts(pool: PoolState, now_s: int) -> Iterable[tuple[str, NodeNeed]]:
    for job in pool.waiting:
        if job.start_s is None or job.state is not JobState.PENDING:
            continue
        why = f"job {job.job_id}, planned in {duration_text(max(job.start_s - now_s, 0))}"
        for name in job.known_hosts:
            yield name, NodeNeed(job.start_s, why, any_equal=name not in job.required_hosts)


def _list_needs_of_named_nodes(pool: PoolState, now_s: int) -> Iterable[tuple[str, NodeNeed]]:
    """List the nodes that deferred jobs request by name."""
    for job in pool.deferred:
        begin_s = job.begin_s or now_s
        needed = NodeNeed(begin_s, f"job {job.job_id}, which may start in {duration_text(begin_s - now_s)}")
        yield from ((name, needed) for name in job.required_hosts)


def _is_new(job: Job, now_s: int, patience_s: int) -> bool:
    """Whether the scheduler may not have planned the job yet, so that idle nodes stay awake for it."""
    return job.start_s is None and now_s - max(job.submit_s, job.begin_s or 0) <= patience_s


def _plan_limited(
    pool: PoolState,
    ours: list[ObservedNode],
    targets: PoolTargets,
    memory: PowerMemory,
    *,
    site: PowerSite,
    snapshot: ClusterSnapshot,
    most: int,
) -> PoolPlan:
    """Return the plan of a pool that offers as many nodes as its targets say, and withdraws the others.

    The scheduler plans starts on all nodes on offer, so its plan keeps no node on offer, and wakes none.
    """
    now_s = snapshot.now_s
    lead_s = max((site.lead_s(node.name, snapshot) for node in pool.pool.nodes[:1]), default=0)
    always = dict(list_names_always_offered(pool, ours, site, now_s + lead_s))
    may_leave = find_nodes_that_may_leave(pool, ours, memory, site=site)
    candidates = list_nodes_to_wake(pool, ours, memory, min_asleep_s=site.bounds.min_asleep_s)
    may_sleep = {node.name for node in ours if node.name in may_leave and node.is_on}
    offer = Offer.of(
        pool,
        targets.floor,
        always=always,
        withdrawable=may_leave,
        to_wake=candidates,
        deferred=[job for job in pool.deferred if (job.begin_s or 0) - lead_s <= now_s],
        pick_sleepers=lambda names, count: _pick_depths(
            pool, targets, memory, names & may_sleep, max(min(count, most), 0)
        ),
    )
    awake = {node.name for node in pool.nodes_at((pool.state == ACTIVE) | pool.rising)}
    named = {node.name: f"for {always[node.name]}" for node in ours if node.is_asleep and node.name in always}
    woken = [node.name for node in ours if node.name in offer.nodes - awake]
    described = offer.describe(pool, targets.capacity.name, targets.why)
    return PoolPlan(
        sleep=_describe_sleepers(pool, f"{CAPACITY}: {targets.why}", memory, offer.sleepers),
        wake={**dict.fromkeys(woken, targets.why), **named},
        memory=targets.memory,
        least=find_least_nodes(pool, targets),
        offer=described,
        withdrawn=dict.fromkeys(may_leave - offer.nodes - offer.sleepers.keys(), described.limit),
    )


def list_names_always_offered(
    pool: PoolState, ours: Iterable[ObservedNode], site: PowerSite, until_s: int
) -> Iterable[tuple[str, str]]:
    """Yield the nodes that reservations, jobs and admins name, and by what."""
    needs = (*_list_needs_of_reservations(pool.cluster.view), *_list_needs_of_named_nodes(pool, until_s))
    yield from ((name, needed.why) for name, needed in needs if needed.at_s <= until_s)
    yield from ((name, f"job {job.job_id}") for job in pool.waiting for name in job.required_hosts)
    for node in ours:
        desired = None if node.record is None else node.record.desired
        if desired is None or desired.order is not NodeOrder.ON or not desired.by.startswith(ADMIN):
            continue
        if pool.cluster.now.unix_s - desired.since_unix_s < site.agent.hands_off_s:
            yield node.name, f"{desired.by}, who has woken it"


def find_nodes_that_may_leave(
    pool: PoolState, ours: Iterable[ObservedNode], memory: PowerMemory, *, site: PowerSite
) -> frozenset[str]:
    """Return the nodes, awake or asleep, that may be withdrawn: a job that is not understood may need any of its."""
    unclear = _find_unclear_nodes(pool)
    return frozenset(
        node.name for node in ours if node.name not in unclear and _may_leave(node, pool, memory, site=site)
    )


def _may_leave(node: ObservedNode, pool: PoolState, memory: PowerMemory, *, site: PowerSite) -> bool:
    """Whether a node, awake or asleep, may be withdrawn from jobs: if it sleeps, or can."""
    known, node_class = memory.nodes[node.name], site.node_class(node.name)
    if known.leaving is not None or pool.snapshot.now_s < known.rest_until_s or node.state == FAILED:
        return False
    if node_class is None or not all(node_class.find_depth(depth) for depth in pool.sleep.depths):
        return False
    return (node.is_on or node.is_asleep) and node.record is not None and node.record.fault is None


ANY_POOL = -1
"""The key of the nodes that may be of any pool, among counts by pool."""


def _count_missing(pool: PoolState, targets: PoolTargets, demand: UpcomingDemand) -> dict[int, int]:
    """Return how many more nodes must be awake than are awake or coming up, by pool for jobs; ANY_POOL for targets."""
    active, rising = int((pool.state == ACTIVE).sum()), int(pool.rising.sum())
    free = pool.count_by_pool(pool.ready & ~_find_reserved(pool, demand))
    missing = {number: count - free[number] for number, count in demand.idle_now.items() if count > free[number]}
    by_targets = max(targets.floor - active - rising, targets.reserve - int(pool.ready.sum()))
    return missing | {ANY_POOL: max(by_targets, 0)}


def _find_reserved(pool: PoolState, demand: UpcomingDemand) -> NDArray[np.bool_]:
    return np.array([node.name in demand.reserved for node in pool.pool.nodes], dtype=np.bool_)


def _may_sleep(
    node: ObservedNode,
    pool: PoolState,
    demand: UpcomingDemand,
    memory: PowerMemory,
    *,
    site: PowerSite,
    snapshot: ClusterSnapshot,
) -> bool:
    if not node.is_on or not _may_leave(node, pool, memory, site=site):
        return False
    within_s = pool.sleep.pays_s() + site.lead_s(node.name, snapshot)
    is_planned = node.node.planned and node.name not in demand.nodes
    return not is_planned and not demand.keeps(node.name, within_s, snapshot.now_s)


def _choose_sleepers(
    pool: PoolState,
    targets: PoolTargets,
    demand: UpcomingDemand,
    memory: PowerMemory,
    may_sleep: set[str],
    *,
    most: int,
) -> dict[str, tuple[NodeOrder, str]]:
    """Return the idle nodes to put to sleep, chosen as in a replay."""
    if (targets.capacity.schedule.after_s[targets.row] == NEVER).all():
        return {}
    idle, free = int(pool.is_idle.sum()), int((pool.is_idle & ~_find_reserved(pool, demand)).sum())
    free_by_pool = pool.count_by_pool(pool.is_idle & ~_find_reserved(pool, demand))
    kept = sum(min(count, free_by_pool[number]) for number, count in demand.idle_kept.items())
    spare = min(idle - max(targets.reserve, targets.keep), free - kept)
    allowed = max(min(int((pool.state == ACTIVE).sum()) - targets.floor, spare, most), 0)
    if len(set(pool.pool_of.tolist())) > 1:
        for number, count in demand.idle_kept.items():
            names = {node.name for node in pool.nodes_at(pool.pool_of == number)} & may_sleep
            picked = _pick_depths(pool, targets, memory, names, max(free_by_pool[number] - count, 0))
            may_sleep = may_sleep - names | picked.keys()
    return _describe_sleepers(pool, targets.why, memory, _pick_depths(pool, targets, memory, may_sleep, allowed))


def _pick_depths(
    pool: PoolState, targets: PoolTargets, memory: PowerMemory, names: set[str], most: int
) -> dict[str, int]:
    """Return up to `most` of the idle nodes of these names that sleep first, with the depths."""
    rules, schedule = targets.capacity.rules, targets.capacity.schedule
    table, depth = pool.node_table(memory, names), np.full(len(pool.state), NO_DEPTH)
    criteria = SleepCriteria(table, rules, schedule, targets.row, pool.snapshot.now_s, not rules.on_demand)
    pick_sleepers(criteria, most, depth)
    return {node.name: each for node, each in zip(pool.pool.nodes, depth.tolist(), strict=True) if each != NO_DEPTH}


def _describe_sleepers(
    pool: PoolState, why: str, memory: PowerMemory, depths: Mapping[str, int]
) -> dict[str, tuple[NodeOrder, str]]:
    """Return order and reason for each node that falls asleep."""
    now_s = pool.snapshot.now_s
    last = {name: len(its) for name in depths if (its := pool.awake_beside[name]) <= depths.keys()}
    return {
        name: (
            ORDER_OF_DEPTH[depth],
            f"{why}; idle {duration_text(now_s - memory.nodes[name].idle_since_s)}; "
            f"break-even {duration_text(pool.sleep.pays_s(last.get(name, 0)))}",
        )
        for name, depth in depths.items()
        if depth in ORDER_OF_DEPTH
    }


def list_nodes_to_wake(
    pool: PoolState, ours: list[ObservedNode], memory: PowerMemory, *, min_asleep_s: int
) -> tuple[str, ...]:
    """Return the nodes that can be woken or called back: those still awake, then light sleepers."""
    rested = {
        node.name
        for node in ours
        if not node.node.failed
        and pool.snapshot.now_s - max(memory.nodes[node.name].slept_s, default=0) >= min_asleep_s
    }
    sleeping = [
        node.name
        for state in ASLEEP_BY_DEPTH
        for node, each in zip(pool.pool.nodes, pool.state.tolist(), strict=True)
        if each == state and node.name in rested
    ]
    return tuple(dict.fromkeys([*_list_nodes_to_call_back(ours, memory), *sleeping]))


def _list_nodes_to_call_back(ours: Iterable[ObservedNode], memory: PowerMemory) -> list[str]:
    """Return the nodes on their way to sleep that have no order to go down yet."""
    leaving = (node for node in ours if memory.nodes[node.name].leaving is not None)
    return [node.name for node in leaving if node.is_on and not node.may_still_go_down]


def _call_back_instead(
    pool: PoolState, ours: list[ObservedNode], demand: UpcomingDemand, memory: PowerMemory, needed: Mapping[str, str]
) -> dict[str, str]:
    """Return the nodes to wake, each with its reason. An equal node that has not gone down yet replaces a sleeper."""
    number_of, found = pool.cluster.pool_of_node, dict[str, str]()
    back = [name for name in _list_nodes_to_call_back(ours, memory) if name not in demand.nodes]
    for name, why in needed.items():
        equal = [each for each in back if number_of[each] == number_of[name] and demand.nodes[name].any_equal]
        found[equal[0] if equal else name] = why
        back = [each for each in back if each not in equal[:1]]
    return found


def _choose_nodes_to_wake(
    pool: PoolState, candidates: Iterable[str], missing: Mapping[int, int], woken: int
) -> tuple[str, ...]:
    """Return the first candidates of each pool that misses nodes for jobs, and more for the targets.

    `woken` nodes wake in any case: they count for the targets, but they are there for other jobs.
    """
    left = dict(missing)
    chosen: list[str] = []
    others: list[str] = []
    for name in candidates:
        number = pool.cluster.pool_of_node[name]
        fits = left.get(number, 0) > 0
        (chosen if fits else others).append(name)
        left[number] = left.get(number, 0) - fits
    return (*chosen, *others[: max(missing[ANY_POOL] - len(chosen) - woken, 0)])
