"""Decides about one pool: what is needed, the policy's targets, which nodes wake, and which idle nodes sleep. Pure.

`plan_pool` is the entry. The capacity policy, the same as in the simulator, adds its targets to the known demand. A job
wakes nodes that can run it, and keeps such nodes awake if others could not: a node of another kind would not help it.
Nodes that are up for a job stay so until the scheduler had time to start it. In a cycle that wakes a node, none of its
kind falls asleep. While a job waits whose request is not understood, no idle node of its partitions falls asleep.

While `limit_capacity` is set, a pool offers to jobs as many nodes as its policy has decided (`_plan_limited`), or those
that are awake and those that a plan of the queue wakes (`_plan_by_queue`).
"""

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from offpeak.display import duration_text
from offpeak.door.effect import ADMIN
from offpeak.model.node_states import DEPTHS, FAILED, ORDER_OF_DEPTH, asleep
from offpeak.model.orders import NodeOrder
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.capacity.rules import NEVER
from offpeak.plugin.capacity.sleepers import (
    NO_DEPTH,
    SleepCriteria,
    expect_needs,
    floor_nodes,
    follow_queue,
    new_record,
    pick_sleepers,
)
from offpeak.plugin.scheduler.job import Job
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.power.live.cluster_snapshot import PastUse, PoolMemory
from offpeak.power.live.demand import (
    UpcomingDemand,
    find_demand,
    list_needs_of_named_nodes,
    list_needs_of_reservations,
)
from offpeak.power.live.observe import PowerRow
from offpeak.power.live.pools import PoolTable, expected_end_of
from offpeak.power.live.queue_plan import plan_wakes, waits_for_unknown

ASLEEP_BY_DEPTH = tuple(asleep(depth) for depth in range(len(DEPTHS)))
CAPACITY = "capacity"
"""The first word of the reason of a node that is not on offer to jobs."""


@dataclass(frozen=True)
class PoolOffer:
    """How many of the usable nodes of a pool its policy offers, to the jobs of which partitions, and the reason.

    `by_queue`: a plan of the queue wakes further nodes when jobs need them.
    """

    pool: str
    partitions: frozenset[str]
    policy: str
    offered: int
    usable: int
    why: str
    by_queue: bool = False

    @property
    def text(self) -> str:
        """The offer in words."""
        return f"{self.policy} offers {self.offered:,} of {self.usable:,} nodes"

    @property
    def limit(self) -> str:
        """The reason of a node that is not on offer."""
        return f"{CAPACITY}: {self.text}"


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


def plan_pool(pool: PoolTable, before: PoolMemory | None, *, most_to_sleep: int) -> PoolPlan:
    """Return the plan of a pool. While nodes are missing, none is put to sleep.

    `before` is what was decided in the last cycle; `most_to_sleep` of the site's nodes may begin to sleep now.
    """
    now_s, site = pool.snapshot.now_s, pool.site
    demand = find_demand(pool, before.served_s if before else {})
    targets = find_targets(pool, before)
    targets = replace(targets, memory=replace(targets.memory, served_s=demand.served_s))
    if site.agent.limit_capacity and targets.capacity.limits_nodes:
        by_queue = targets.capacity.rules.plan_s > 0
        return (_plan_by_queue if by_queue else _plan_limited)(pool, targets, most_to_sleep)
    needed = _choose_needed(pool, demand)
    candidates = list_nodes_to_wake(pool)
    free = pool.count_by_kind(pool.ready & ~pool.is_among(demand.reserved))
    missing = {kind: count - free[kind] for kind, count in demand.idle_now.items() if count > free[kind]}
    by_targets = max(
        targets.floor - int(pool.is_active.sum()) - int(pool.rising.sum()), targets.reserve - int(pool.ready.sum()), 0
    )
    if missing or by_targets:
        # The first candidates of each kind that misses nodes for jobs, and more for the targets. Needed nodes count for
        # the targets, but they are there for other jobs.
        for_jobs, others = list[str](), list[str]()
        for name in candidates:
            if name not in needed:
                kind = pool.row_of[name].kind
                fits = missing.get(kind, 0) > 0
                (for_jobs if fits else others).append(name)
                missing[kind] = missing.get(kind, 0) - fits
        to_wake = (*for_jobs, *others[: max(by_targets - len(for_jobs) - len(needed), 0)])
        why = demand.why if demand.idle_now and demand.why else targets.why
        return PoolPlan({}, {**dict.fromkeys(to_wake, why), **needed}, targets.memory, targets.least)
    woken_kinds = {pool.row_of[name].kind for name in needed}
    may_sleep, pays_s = set[str](), pool.sleep.pays_s()
    for row in pool.ours:
        need = demand.nodes.get(row.name)
        is_kept = row.name in demand.kept or row.kind in woken_kinds or (row.node.planned and need is None)
        is_needed = need is not None and need.at_s - now_s <= pays_s + row.times.lead_s
        if row.is_on and row.name in pool.may_leave and not is_kept and not is_needed:
            may_sleep.add(row.name)
    sleepers = _choose_sleepers(pool, targets, demand, may_sleep, most_to_sleep)
    return PoolPlan(describe_sleepers(pool, targets.why, sleepers), needed, targets.memory, targets.least)


@dataclass(frozen=True, eq=False)
class PoolTargets:
    """A pool's targets: nodes awake (`floor`), idle and ready (`reserve`), idle and awake (`keep`), and the reason.

    `row` is that of the policy's schedule. `least` leaves out what a policy decides by a forecast.
    """

    capacity: CapacityPolicy
    row: int
    floor: int
    reserve: int
    keep: int
    why: str
    memory: PoolMemory
    least: LeastNodes


def find_targets(pool: PoolTable, before: PoolMemory | None) -> PoolTargets:
    """Return the targets now. A policy with a period decides once a period; its last decision holds in between.

    Raises BadInput if the policy does not suit the nodes.
    """
    now_s = pool.snapshot.now_s
    share = float(pool.busy.sum()) / max(pool.usable_nodes * pool.units_per_node, 1)
    use = (before.use if before and before.use else PastUse(now_s)).until(now_s, share)
    capacity = _make_policy(pool, use.load(share))
    rules, schedule = capacity.rules, capacity.schedule
    row = max(int(np.searchsorted(schedule.at_s, now_s, side="right")) - 1, 0)
    memory = before if before is not None and before.policy == capacity.name else None
    if memory is None or not memory.decided_s <= now_s < memory.decided_s + rules.period_s:
        memory = _decide_targets(pool, capacity, row, memory)
    targets, keep = memory.targets, 0
    if rules.worth_s:
        keep = targets.awake
    elif not rules.on_demand:
        # The target follows the queue: between two levels, or up to the widest queued job.
        in_use = int(((pool.busy > 0) & pool.is_active).sum())
        widest = -(-int(pool.snapshot.queued.size.max(initial=0)) // pool.units_per_node)
        targets = replace(targets, awake=int(follow_queue(rules, targets.awake, in_use, widest, pool.usable_nodes)))
    reserve = targets.reserve if rules.period_s else int(schedule.reserve[row])
    idle, ready = int(pool.is_idle.sum()), max(reserve, keep)
    stay = f", {ready} of them stay ready" if ready else ""
    least = LeastNodes(rules.keep_hot, 0 if rules.period_s else int(schedule.reserve[row]))
    return PoolTargets(
        capacity=capacity,
        row=row,
        floor=floor_nodes(rules, targets.awake),
        reserve=reserve,
        keep=keep,
        why=targets.why or f"{capacity.name}: {idle:,} idle node{'' if idle == 1 else 's'}{stay}",
        memory=replace(memory, targets=targets, use=use),
        least=LeastNodes(pool.usable_nodes, 0) if capacity.keeps_all_awake else least,
    )


def _make_policy(pool: PoolTable, load: float) -> CapacityPolicy:
    """Return the policy that the settings name, within the agent's bounds. Raises BadInput."""
    agent, bounds = pool.site.agent, pool.site.bounds
    fleet = Fleet(
        nodes=pool.usable_nodes,
        units_per_node=pool.units_per_node,
        node_class=pool.sleep.node_class,
        load=load,
        price_at_s=pool.cluster.price_at_s,
        price_per_mwh=pool.cluster.price_per_mwh,
        share=pool.share,
    )
    per_day = [most for most in (bounds.cycles_per_day, agent.cycles_per_day) if most]
    keep_hot = min(fleet.part_of(bounds.keep_hot), fleet.nodes)
    bounds = replace(bounds, keep_hot=keep_hot, cycles_per_day=min(per_day, default=0))
    return make_capacity_policy(agent.capacity, fleet, bounds)


def _decide_targets(pool: PoolTable, capacity: CapacityPolicy, row: int, before: PoolMemory | None) -> PoolMemory:
    """Return the policy's decision. For a forecast, `awake` are the idle nodes that stay awake."""
    now_s, nodes = pool.snapshot.now_s, pool.usable_nodes
    if capacity.decide is not None:
        return PoolMemory(capacity.name, now_s, capacity.decide(pool.snapshot))
    if not capacity.rules.worth_s:
        awake = before.targets.awake if before is not None else int(capacity.schedule.target[row])
        return PoolMemory(capacity.name, now_s, capacity.targets(awake))
    known = None if before is None else before.needs
    needs = copy.deepcopy(known) if known is not None and len(known.used_s) == nodes else new_record(nodes)
    needed = min(-(-pool.snapshot.units_in_use // pool.units_per_node), nodes)
    keep, reserve = expect_needs(needs, now_s, needed, capacity.rules.worth_s)
    return PoolMemory(capacity.name, now_s, capacity.targets(int(keep), int(reserve)), needs)


def _choose_needed(pool: PoolTable, demand: UpcomingDemand) -> dict[str, str]:
    """Return the sleeping nodes that are needed by name and must wake now, each with the reason.

    An equal node that has not gone down yet replaces a sleeper, unless it is needed itself.
    """
    needed = dict[str, str]()
    back = [row for row in _list_nodes_to_call_back(pool) if row.name not in demand.nodes]
    for row in pool.ours:
        need = demand.nodes.get(row.name)
        if row.is_asleep and need is not None and need.at_s - row.times.lead_s <= pool.snapshot.now_s:
            equal = [other for other in back if other.kind == row.kind and need.any_equal][:1]
            needed[equal[0].name if equal else row.name] = f"for {need.why}"
            back = [other for other in back if other not in equal]
    return needed


def list_nodes_to_wake(pool: PoolTable) -> tuple[str, ...]:
    """Return the nodes that can be woken or called back: those still awake, then light sleepers."""
    rested = [
        row
        for row in pool.ours
        if not row.node.failed
        if pool.snapshot.now_s - max(row.memory.slept_s, default=0) >= pool.site.bounds.min_asleep_s
    ]
    asleep_now = [row for state in ASLEEP_BY_DEPTH for row in rested if row.state == state]
    return tuple(dict.fromkeys(row.name for row in (*_list_nodes_to_call_back(pool), *asleep_now)))


def _list_nodes_to_call_back(pool: PoolTable) -> list[PowerRow]:
    """Return the nodes on their way to sleep that have no order to go down yet."""
    leaving = (row for row in pool.ours if row.memory.leaving is not None)
    return [row for row in leaving if row.is_on and not row.may_still_go_down]


def _choose_sleepers(
    pool: PoolTable, targets: PoolTargets, demand: UpcomingDemand, may_sleep: set[str], most: int
) -> dict[str, int]:
    """Return the idle nodes to put to sleep, chosen as in a replay, with their depths."""
    if (targets.capacity.schedule.after_s[targets.row] == NEVER).all():
        return {}
    is_spare = pool.is_idle & ~pool.is_among(demand.reserved)
    by_kind = pool.count_by_kind(is_spare)
    kept = sum(min(count, by_kind[kind]) for kind, count in demand.idle_kept.items())
    spare = min(int(pool.is_idle.sum()) - max(targets.reserve, targets.keep), int(is_spare.sum()) - kept)
    allowed = max(min(int(pool.is_active.sum()) - targets.floor, spare, most), 0)
    if len(set(pool.kind.tolist())) > 1:
        for kind, count in demand.idle_kept.items():
            names = {row.name for row in pool.rows if row.kind == kind} & may_sleep
            picked = pick_depths(pool, targets, names, max(by_kind[kind] - count, 0))
            may_sleep = may_sleep - names | picked.keys()
    return pick_depths(pool, targets, may_sleep, allowed)


def pick_depths(pool: PoolTable, targets: PoolTargets, names: Collection[str], most: int) -> dict[str, int]:
    """Return up to `most` of the idle nodes of these names that sleep first, with the depths."""
    rules, schedule = targets.capacity.rules, targets.capacity.schedule
    table, depth = pool.node_table(names), np.full(len(pool.state), NO_DEPTH)
    criteria = SleepCriteria(table, rules, schedule, targets.row, pool.snapshot.now_s, not rules.on_demand)
    pick_sleepers(criteria, most, depth)
    return {row.name: number for row, number in zip(pool.rows, depth.tolist(), strict=True) if number != NO_DEPTH}


def describe_sleepers(pool: PoolTable, why: str, depths: Mapping[str, int]) -> dict[str, tuple[NodeOrder, str]]:
    """Return order and reason for each node that falls asleep."""
    found = {}
    for name, depth in depths.items():
        if depth in ORDER_OF_DEPTH:
            row = pool.row_of[name]
            idle_s = pool.snapshot.now_s - row.memory.idle_since_s
            # The last nodes of an enclosure save what it draws itself, too.
            pays_s = pool.sleep.pays_s(len(row.awake_beside) if row.awake_beside <= depths.keys() else 0)
            text = f"{why}; idle {duration_text(idle_s)}; break-even {duration_text(pays_s)}"
            found[name] = ORDER_OF_DEPTH[depth], text
    return found


def _plan_limited(pool: PoolTable, targets: PoolTargets, most_to_sleep: int) -> PoolPlan:
    """Return the plan of a pool that offers as many nodes as its targets say, and withdraws the others.

    A withdrawn node is closed to jobs: a sleeping one is not woken for any job, and an awake one sleeps as soon as its
    jobs have ended. A node is always on offer if it comes up, if an admin, a reservation or a job names it, and if a
    waiting job could otherwise never start: a job keeps as many nodes that can run it as it requests. Then follow busy
    nodes, idle ones and sleeping ones, up to the targets. The scheduler plans starts on all nodes on offer, so its plan
    keeps no node on offer, and wakes none.
    """
    now_s, lead_s = pool.snapshot.now_s, pool.rows[0].times.lead_s
    always = dict(list_names_always_offered(pool, now_s + lead_s))
    deferred = [job for job in pool.deferred if (job.begin_s or 0) - lead_s <= now_s]
    awake = {row.name for row in pool.rows_at(pool.is_active | pool.rising)}
    usable = [row.name for row in pool.rows if row.state != FAILED]
    busy = _list_busy(pool, awake)
    idle = [row.name for row in pool.rows_at(pool.is_idle)]
    to_wake = list_nodes_to_wake(pool)
    # A sleeping node that rests is woken for a job only.
    resting = [name for name in usable if name in pool.may_leave and name not in awake]
    preferred = tuple(dict.fromkeys((*busy, *idle, *to_wake, *resting)))
    named = {name for name in usable if name in pool.may_leave and name in always}
    rising = {row.name for row in pool.rows_at(pool.rising)}
    offered = named | rising | {name for name in usable if name in awake and name not in pool.may_leave}
    offered = _add_widest_needs(pool, [*pool.waiting, *deferred], preferred, offered)
    floor = targets.floor + len(named)
    offered |= {*[name for name in busy if name not in offered][: max(floor - len(offered), 0)]}
    spare = {name for name in idle if name not in offered}
    may_sleep = {row.name for row in pool.ours if row.name in spare and row.name in pool.may_leave and row.is_on}
    most = min(len(spare) - max(floor - len(offered), 0), most_to_sleep)
    sleepers = pick_depths(pool, targets, may_sleep, max(most, 0))
    offered |= spare - sleepers.keys()
    offered |= {*[name for name in to_wake if name not in offered][: max(floor - len(offered), 0)]}
    woken = [row.name for row in pool.ours if row.name in offered and row.name not in awake]
    wake = {**dict.fromkeys(woken, targets.why), **_wake_named(pool, always)}
    return _plan_offer(pool, targets, offered, sleepers, wake)


def _plan_by_queue(pool: PoolTable, targets: PoolTargets, most_to_sleep: int) -> PoolPlan:
    """Return the plan of a pool whose jobs start on awake nodes only, which a plan of the queue wakes in time.

    All awake nodes are on offer. A sleeping node is woken if the plan says so, if an admin, a reservation or a job
    names it, and at once for a job that only some of the nodes can run, which the plan does not know. As many others as
    the widest waiting job needs are on offer asleep, so that the scheduler reserves them for it; the rest is withdrawn,
    unless the plan does not know why the first job waits.
    """
    now_s, lead_s = pool.snapshot.now_s, pool.rows[0].times.lead_s
    always = dict(list_names_always_offered(pool, now_s + lead_s))
    awake = {row.name for row in pool.rows_at(pool.is_active | pool.rising)}
    usable = [row.name for row in pool.rows if row.state != FAILED]
    to_wake = list_nodes_to_wake(pool)
    preferred = tuple(dict.fromkeys((*_list_busy(pool, awake), *sorted(awake), *to_wake, *usable)))
    deferred = [job for job in pool.deferred if (job.begin_s or 0) - lead_s <= now_s]
    selective = [job for job in pool.waiting if pool.is_selective(pool.cluster.candidate_pools(job))]
    at_once = {name for name in usable if name in always}
    at_once = _add_widest_needs(pool, [*selective, *deferred], preferred, at_once)
    planned = plan_wakes(pool, len(to_wake), targets.capacity.rules.plan_s)
    up = int(pool.is_active.sum()) + int(pool.rising.sum())
    missing = max(planned.wakes, targets.floor - up, targets.reserve - int(pool.ready.sum()))
    woken = [name for name in to_wake if name in at_once]
    woken += [name for name in to_wake if name not in at_once][: max(missing - len(woken), 0)]
    offered = _add_widest_needs(pool, [*pool.waiting, *deferred], preferred, awake | set(woken) | at_once)
    if waits_for_unknown(pool):
        offered |= set(usable)
    idle = {row.name for row in pool.rows_at(pool.is_idle)}
    may_sleep = {row.name for row in pool.ours if row.name in idle & pool.may_leave - at_once and row.is_on}
    most = min(up - targets.floor, len(idle) - max(targets.reserve, targets.keep, planned.keep), most_to_sleep)
    sleepers = pick_depths(pool, targets, may_sleep, max(most, 0))
    offered -= sleepers.keys()
    wake = {**dict.fromkeys(woken, f"{targets.why}; by a plan of the queue"), **_wake_named(pool, always)}
    return _plan_offer(pool, targets, offered, sleepers, wake)


def _wake_named(pool: PoolTable, always: Mapping[str, str]) -> dict[str, str]:
    return {row.name: f"for {always[row.name]}" for row in pool.ours if row.is_asleep and row.name in always}


def _plan_offer(
    pool: PoolTable, targets: PoolTargets, offered: set[str], sleepers: Mapping[str, int], wake: Mapping[str, str]
) -> PoolPlan:
    """Return the plan in which all nodes that may leave, are not on offer and do not fall asleep are withdrawn."""
    offer = PoolOffer(
        pool.name,
        frozenset(name for row in pool.rows for name in row.node.partitions),
        targets.capacity.name,
        len(offered),
        pool.usable_nodes,
        targets.why,
        targets.capacity.rules.plan_s > 0,
    )
    return PoolPlan(
        sleep=describe_sleepers(pool, f"{CAPACITY}: {targets.why}", sleepers),
        wake=wake,
        memory=targets.memory,
        least=targets.least,
        offer=offer,
        withdrawn=dict.fromkeys(pool.may_leave - offered - sleepers.keys(), offer.limit),
    )


def _list_busy(pool: PoolTable, awake: Collection[str]) -> list[str]:
    """Return the awake nodes with jobs: open ones first, and of these the nodes that are free last."""
    ends_s: dict[str, int] = {}
    for job in pool.jobs:
        if job.holds_nodes:
            end_s = expected_end_of(job, pool.cluster.run_s, pool.snapshot.now_s)
            ends_s |= {host: max(end_s, ends_s.get(host, 0)) for host in job.known_hosts}
    busy = [row for row in pool.rows_at(pool.busy > 0) if row.name in awake]
    return [row.name for row in sorted(busy, key=lambda row: (row.node.closed_by_us, -ends_s.get(row.name, 0)))]


def _add_widest_needs(pool: PoolTable, jobs: Iterable[Job], preferred: Iterable[str], offered: set[str]) -> set[str]:
    """Return these nodes, and as many more of the preferred ones as the widest of the jobs needs of those that fit."""
    for fit, width in _find_widest_needs(pool, jobs).items():
        more = (name for name in preferred if name in fit and name not in offered)
        offered = offered | set(islice(more, max(width - len(fit & offered), 0)))
    return offered


def _find_widest_needs(pool: PoolTable, jobs: Iterable[Job]) -> dict[frozenset[str], int]:
    """Return how many of some usable nodes the widest of these jobs needs.

    A job that is too wide for the nodes that fit it needs none. A job that excludes nodes, or has several chunks, may
    need nodes of every type, so it needs as many as there are.
    """
    kinds = {row.name: row.kind for row in pool.rows if row.state != FAILED}
    names: dict[tuple[frozenset[int], frozenset[str]], frozenset[str]] = {}
    needs: dict[frozenset[str], int] = {}
    particular = [job for job in pool.cluster.view.jobs if _is_particular(job) and job.is_waiting(pool.snapshot.now_s)]
    for job in (*jobs, *particular):
        request, excluded = job.request, job.request.excluded if job.request else frozenset[str]()
        width = max(job.nodes, -(-job.count_units(pool.units_per_node) // pool.units_per_node))
        fits = [(frozenset(pool.cluster.candidate_pools(job)), width)]
        if request is not None and request.chunks[1:]:
            for chunk in request.chunks:
                alone = request._replace(chunks=(chunk,))
                fits.append((frozenset(pool.cluster.cluster.candidates(alone)), min(chunk.copies, width)))
        for fitting, wide in fits:
            key = fitting, excluded
            if key not in names:
                names[key] = frozenset(name for name, kind in kinds.items() if kind in fitting and name not in excluded)
            has = len(names[key])
            if _is_particular(job) or wide <= has:
                needs[names[key]] = max(min(wide, has), needs.get(names[key], 0))
    return needs


def _is_particular(job: Job) -> bool:
    return job.request is not None and bool(job.request.excluded or job.request.chunks[1:])


def list_names_always_offered(pool: PoolTable, until_s: int) -> Iterable[tuple[str, str]]:
    """Yield the nodes that reservations, jobs and admins name, and by what."""
    needs = (*list_needs_of_reservations(pool), *list_needs_of_named_nodes(pool, until_s))
    yield from ((name, need.why) for name, need in needs if need.at_s <= until_s)
    yield from ((name, f"job {job.job_id}") for job in pool.waiting for name in job.required_hosts)
    for row in pool.ours:
        desired = None if row.record is None else row.record.desired
        if desired is None or desired.order is not NodeOrder.ON or not desired.by.startswith(ADMIN):
            continue
        if pool.cluster.now.unix_s - desired.since_unix_s < pool.site.agent.hands_off_s:
            yield row.name, f"{desired.by}, who has woken it"
