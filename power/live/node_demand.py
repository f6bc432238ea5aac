"""How many nodes of a pool have to be awake, by reservations, planned starts, deferred jobs and the capacity policy.

The policy is called as the simulator calls it. A job that the queue loop may yet put off demands no node.
"""

import copy
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import counted
from plugin.capacity.need import NeedRecord, new_record
from plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from plugin.capacity.sleepers import expect_needs
from plugin.queue_hook.user_hints import parse_user_hints
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import SchedulerView
from power.capacity.registry import make_capacity_policy
from power.live.cluster_snapshot import ClusterSnapshot, PowerSite, format_duration, lead_s
from power.live.cycle_memory import PoolMemory
from power.live.pool_state import PoolState, is_deferred

NEW_JOB_S = 60
"""The scheduler may not have looked at a job that came so lately: idle nodes wait for it."""


@dataclass(frozen=True)
class NodeNeed:
    """When a node is needed (Unix seconds), and for what."""

    at_s: int
    why: str


@dataclass(frozen=True)
class UpcomingDemand:
    """`nodes` that are needed by name; of any others, so many idle ones have to be there now, or are worth keeping.

    `spoken_for` are those that are needed by name so soon that they are nobody else's.
    """

    nodes: Mapping[str, NodeNeed] = field(default_factory=dict)
    idle_now: int = 0
    idle_kept: int = 0
    why: str = ""
    spoken_for: frozenset[str] = frozenset()

    def to_wake(self, node: str, lead_s: int, now_s: int) -> str:
        """Return why the node is to be woken now, "" if nothing asks for it yet."""
        needed = self.nodes.get(node)
        return needed.why if needed is not None and needed.at_s - lead_s <= now_s else ""

    def keeps(self, node: str, within_s: float, now_s: int) -> bool:
        """Whether the node is needed so soon that it stays awake."""
        needed = self.nodes.get(node)
        return needed is not None and needed.at_s - now_s <= within_s


def nodes_in_maintenance(view: SchedulerView) -> frozenset[str]:
    """Return the nodes that nobody is to touch now: in maintenance, or reserved for what is not told."""
    now = [each for each in view.reservations if each.start_s <= view.at_s < each.end_s]
    kept = {name for each in now if each.maintenance for name in each.nodes}
    known = {name for each in now for name in each.nodes}
    return frozenset(kept | {node.name for node in view.nodes if node.reserved and node.name not in known})


def find_upcoming_demand(pool: PoolState, site: PowerSite, snapshot: ClusterSnapshot) -> UpcomingDemand:
    """Return what of a pool is needed soon, as far as anybody can tell."""
    nodes = {node.name for node in pool.pool.nodes}
    found = [*_list_needs_of_reservations(snapshot.view), *_list_needs_of_planned_starts(pool.waiting, snapshot.now_s)]
    soonest: dict[str, NodeNeed] = {}
    for name, needed in found:
        if name in nodes and (name not in soonest or needed.at_s < soonest[name].at_s):
            soonest[name] = needed
    lead = max((lead_s(site, snapshot, node.name) for node in pool.pool.nodes[:1]), default=0)
    deferred = [(job.begin_s or 0, job) for job in pool.pool.jobs if is_deferred(job, snapshot.now_s)]
    idle_now = sum(pool.nodes_of(job) for begin_s, job in deferred if begin_s - lead <= snapshot.now_s)
    kept_s = pool.pays_s + lead
    idle_kept = sum(pool.nodes_of(job) for begin_s, job in deferred if begin_s - snapshot.now_s <= kept_s)
    fresh = sum(pool.nodes_of(job) for job in pool.waiting if _is_new(job, snapshot.now_s) and _can_start(job, pool))
    spoken_for = frozenset(name for name, needed in soonest.items() if needed.at_s - snapshot.now_s <= kept_s)
    return UpcomingDemand(
        soonest, idle_now, idle_kept + fresh, _describe_next_start(deferred, snapshot.now_s), spoken_for
    )


def _list_needs_of_reservations(view: SchedulerView) -> Iterable[tuple[str, NodeNeed]]:
    for each in view.reservations:
        if not each.maintenance and view.at_s < each.end_s:
            needed = NodeNeed(each.start_s, f"the reservation {each.name}")
            yield from ((name, needed) for name in each.nodes)


def _list_needs_of_planned_starts(waiting: Iterable[Job], now_s: int) -> Iterable[tuple[str, NodeNeed]]:
    for job in waiting:
        if job.start_s is None or not job.hosts or job.state is not JobState.PENDING:
            continue
        needed = NodeNeed(job.start_s, f"job {job.job_id}, planned in {format_duration(max(job.start_s - now_s, 0))}")
        yield from ((name, needed) for name in _expand_hosts(job.hosts))


def _expand_hosts(hosts: str) -> tuple[str, ...]:
    try:
        return expand(hosts)
    except BadInput:
        return ()


def _is_new(job: Job, now_s: int) -> bool:
    since_s = max(job.submit_s, job.begin_s or 0)
    return job.start_s is None and now_s - since_s <= NEW_JOB_S


def _can_start(job: Job, pool: PoolState) -> bool:
    """Whether nodes without a job are enough for it, awake or asleep: for another, none that is idle is of use now."""
    return pool.nodes_of(job) <= pool.free_nodes


def _describe_next_start(deferred: list[tuple[int, Job]], now_s: int) -> str:
    if not deferred:
        return ""
    begin_s, job = min(deferred, key=lambda pair: pair[0])
    return f"job {job.job_id} may start in {format_duration(begin_s - now_s)}"


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


def make_policy(pool: PoolState, site: PowerSite, snapshot: ClusterSnapshot) -> CapacityPolicy:
    """Return the policy that the settings name, made for this pool; BadInput where it cannot be."""
    in_use = float(pool.busy.sum()) / max(pool.usable_nodes * pool.units_per_node, 1)
    fleet = Fleet(
        pool.usable_nodes, pool.units_per_node, pool.node_class, in_use, snapshot.price_at_s, snapshot.price_per_mwh
    )
    return make_capacity_policy(site.agent.capacity, fleet, _bound_settings(site, pool.usable_nodes))


def _bound_settings(site: PowerSite, nodes: int) -> CapacitySettings:
    """Return the bounds of a pool of so many nodes, no looser than the agent's own."""
    per_day = [most for most in (site.bounds.cycles_per_day, site.agent.cycles_per_day) if most]
    keep_hot = min(site.bounds.keep_hot, nodes)
    return replace(site.bounds, keep_hot=keep_hot, cycles_per_day=min(per_day, default=0))


def find_targets(pool: PoolState, capacity: CapacityPolicy, before: PoolMemory | None, now_s: int) -> PoolTargets:
    """Return the targets that hold now; a policy that decides each period is asked when its last word is so old."""
    if before is not None and before.policy != capacity.name:
        before = None
    rules, course = capacity.rules, capacity.course
    row = max(int(np.searchsorted(course.at_s, now_s, side="right")) - 1, 0)
    is_due = before is None or not before.decided_s <= now_s < before.decided_s + rules.period_s
    memory = before if before is not None and not is_due else _decide_targets(pool, capacity, row, before, now_s)
    targets, keep = memory.targets, 0
    if rules.worth_s:
        keep = targets.awake
    elif not rules.on_demand:
        targets = replace(targets, awake=_follow_queue(pool, capacity, targets.awake))
    floor = max(rules.keep_hot, 0 if rules.on_demand else targets.awake)
    reserve = targets.reserve if rules.period_s else int(course.reserve[row])
    why = targets.why or _describe_targets(pool, capacity, max(reserve, keep))
    return PoolTargets(
        capacity=capacity,
        row=row,
        floor=floor,
        reserve=reserve,
        keep=keep,
        why=why,
        memory=replace(memory, targets=targets),
    )


def _decide_targets(
    pool: PoolState, capacity: CapacityPolicy, row: int, before: PoolMemory | None, now_s: int
) -> PoolMemory:
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


def _follow_queue(pool: PoolState, capacity: CapacityPolicy, awake: int) -> int:
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


def _describe_targets(pool: PoolState, capacity: CapacityPolicy, ready: int) -> str:
    idle = int(pool.is_idle.sum())
    stay = f", {ready} of them stay ready" if ready else ""
    return f"{capacity.name}: {counted(idle, 'idle node')}{stay}"


LONGEST_UNDECIDED_S = 60
"""A job that the queue loop has not dealt with by then, whatever ails that, has its nodes woken all the same."""


def find_undecided_jobs(view: SchedulerView, decided: Container[str], zone: tzinfo) -> frozenset[str]:
    """Return the jobs that are new, may be put off by their owners' word, and are not among those decided."""
    return frozenset(
        job.job_id
        for job in view.jobs
        if job.state is JobState.PENDING
        and job.job_id not in decided
        and view.at_s - job.submit_s < LONGEST_UNDECIDED_S
        and parse_user_hints(job.comment, zone).allows_delay
    )


def without_jobs(view: SchedulerView, jobs: Container[str]) -> SchedulerView:
    """Return the view without these jobs."""
    return replace(view, jobs=tuple(job for job in view.jobs if job.job_id not in jobs))
