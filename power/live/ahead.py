"""What is known to be needed soon: by reservations, by the scheduler's plan, and by jobs that may start at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import SchedulerView
from power.live.pool_state import PoolState
from power.live.queue import is_deferred
from power.live.site import PowerSite, Sight
from power.live.times import duration_text, lead_s

JUST_SUBMITTED_S = 60
"""The scheduler may not have looked at a job that came so lately: idle nodes wait for it."""


@dataclass(frozen=True)
class Needed:
    """When a node is needed (Unix seconds), and for what."""

    at_s: int
    why: str


@dataclass(frozen=True)
class Ahead:
    """`nodes` that are needed by name; of any others, so many idle ones have to be there now, or are worth keeping.

    `spoken_for` are those that are needed by name so soon that they are nobody else's.
    """

    nodes: Mapping[str, Needed] = field(default_factory=dict)
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


def maintained(view: SchedulerView) -> frozenset[str]:
    """Return the nodes that nobody is to touch now: in maintenance, or reserved for what is not told."""
    now = [each for each in view.reservations if each.start_s <= view.at_s < each.end_s]
    kept = {name for each in now if each.maintenance for name in each.nodes}
    known = {name for each in now for name in each.nodes}
    return frozenset(kept | {node.name for node in view.nodes if node.reserved and node.name not in known})


def ahead_of(pool: PoolState, site: PowerSite, sight: Sight) -> Ahead:
    """Return what of a pool is needed soon, as far as anybody can tell."""
    nodes = {node.name for node in pool.pool.nodes}
    found = [*_by_reservations(sight.view), *_by_plans(pool.waiting, sight.now_s)]
    soonest: dict[str, Needed] = {}
    for name, needed in found:
        if name in nodes and (name not in soonest or needed.at_s < soonest[name].at_s):
            soonest[name] = needed
    lead = max((lead_s(site, sight, node.name) for node in pool.pool.nodes[:1]), default=0)
    deferred = [(job.begin_s or 0, job) for job in pool.pool.jobs if is_deferred(job, sight.now_s)]
    idle_now = sum(pool.nodes_of(job) for begin_s, job in deferred if begin_s - lead <= sight.now_s)
    kept_s = pool.pays_s + lead
    idle_kept = sum(pool.nodes_of(job) for begin_s, job in deferred if begin_s - sight.now_s <= kept_s)
    fresh = sum(pool.nodes_of(job) for job in pool.waiting if _is_fresh(job, sight.now_s) and _can_start(job, pool))
    spoken_for = frozenset(name for name, needed in soonest.items() if needed.at_s - sight.now_s <= kept_s)
    return Ahead(soonest, idle_now, idle_kept + fresh, _why(deferred, sight.now_s), spoken_for)


def _by_reservations(view: SchedulerView) -> Iterable[tuple[str, Needed]]:
    for each in view.reservations:
        if not each.maintenance and view.at_s < each.end_s:
            needed = Needed(each.start_s, f"the reservation {each.name}")
            yield from ((name, needed) for name in each.nodes)


def _by_plans(waiting: Iterable[Job], now_s: int) -> Iterable[tuple[str, Needed]]:
    for job in waiting:
        if job.start_s is None or not job.hosts or job.state is not JobState.PENDING:
            continue
        needed = Needed(job.start_s, f"job {job.job_id}, planned in {duration_text(max(job.start_s - now_s, 0))}")
        yield from ((name, needed) for name in _names(job.hosts))


def _names(hosts: str) -> tuple[str, ...]:
    try:
        return expand(hosts)
    except BadInput:
        return ()


def _is_fresh(job: Job, now_s: int) -> bool:
    since_s = max(job.submit_s, job.begin_s or 0)
    return job.start_s is None and now_s - since_s <= JUST_SUBMITTED_S


def _can_start(job: Job, pool: PoolState) -> bool:
    """Whether nodes without a job are enough for it, awake or asleep: for another, none that is idle is of use now."""
    return pool.nodes_of(job) <= pool.free_nodes


def _why(deferred: list[tuple[int, Job]], now_s: int) -> str:
    if not deferred:
        return ""
    begin_s, job = min(deferred, key=lambda pair: pair[0])
    return f"job {job.job_id} may start in {duration_text(begin_s - now_s)}"
