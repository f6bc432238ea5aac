"""The known demand for nodes of a pool in the near future: reservations, planned starts, and deferred jobs. Pure.

`find_demand` is the entry. A job that the queue loop may yet delay demands no node.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from offpeak.display import duration_text
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.power.live.pools import PoolTable


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

    nodes: Mapping[str, NodeNeed]
    idle_now: Mapping[int, int]
    idle_kept: Mapping[int, int]
    why: str
    reserved: frozenset[str]
    kept: frozenset[str]
    served_s: Mapping[str, int]


def find_demand(pool: PoolTable, served_s: Mapping[str, int]) -> UpcomingDemand:
    """Return the known demand for nodes of a pool in the near future; `served_s` is that of the last cycle."""
    now_s = pool.snapshot.now_s
    earliest: dict[str, NodeNeed] = {}
    for name, need in (
        *list_needs_of_reservations(pool),
        *_list_needs_of_planned_starts(pool),
        *list_needs_of_named_nodes(pool, now_s),
    ):
        if name in pool.row_of and (name not in earliest or need.at_s < earliest[name].at_s):
            earliest[name] = need
    lead_s = pool.rows[0].times.lead_s
    kept_s = pool.sleep.pays_s() + lead_s
    reserved = frozenset(name for name, need in earliest.items() if need.at_s - now_s <= kept_s)
    deferred = [(job.begin_s or 0, job) for job in pool.deferred]
    first_s, first = min(deferred, key=lambda pair: pair[0], default=(0, None))
    room, idle_now = pool.free_room(reserved), Counter[int]()
    for job in _unnamed_parts(pool, (job for begin_s, job in deferred if begin_s - lead_s <= now_s)):
        idle_now.update(room.take_counts(job))
    soon = [job for begin_s, job in deferred if begin_s - now_s <= kept_s]
    idle_kept, served_s = _count_idle_kept(pool, soon, reserved, served_s)
    return UpcomingDemand(
        nodes=earliest,
        idle_now=idle_now,
        idle_kept=idle_kept,
        why=f"job {first.job_id} may start in {duration_text(first_s - now_s)}" if first else "",
        reserved=reserved,
        kept=pool.unclear.union(*(job.required_hosts for job in pool.waiting)),
        served_s=served_s,
    )


def list_needs_of_reservations(pool: PoolTable) -> Iterable[tuple[str, NodeNeed]]:
    """Yield the nodes of reservations."""
    for reservation in pool.cluster.view.reservations:
        if not reservation.maintenance and pool.cluster.now_s < reservation.end_s:
            need = NodeNeed(reservation.start_s, f"the reservation {reservation.name}")
            yield from ((name, need) for name in reservation.nodes)


def _list_needs_of_planned_starts(pool: PoolTable) -> Iterable[tuple[str, NodeNeed]]:
    for job in pool.waiting:
        if job.start_s is not None and job.state is JobState.PENDING:
            why = f"job {job.job_id}, planned in {duration_text(max(job.start_s - pool.snapshot.now_s, 0))}"
            for name in job.known_hosts:
                yield name, NodeNeed(job.start_s, why, any_equal=name not in job.required_hosts)


def list_needs_of_named_nodes(pool: PoolTable, until_s: int) -> Iterable[tuple[str, NodeNeed]]:
    """Yield the nodes that deferred jobs request by name; waits count from `until_s`."""
    for job in pool.deferred:
        begin_s = job.begin_s or until_s
        need = NodeNeed(begin_s, f"job {job.job_id}, which may start in {duration_text(begin_s - until_s)}")
        yield from ((name, need) for name in job.required_hosts)


def _unnamed_parts(pool: PoolTable, jobs: Iterable[Job]) -> Iterable[Job]:
    """Yield the jobs without the nodes that they name: these are needed by name."""
    for job in jobs:
        if (nodes := max(job.nodes, 1) - len(job.required_hosts & pool.row_of.keys())) > 0:
            yield job if nodes >= job.nodes else job._replace(nodes=nodes)


def _count_idle_kept(
    pool: PoolTable, deferred: Iterable[Job], reserved: Collection[str], served_s: Mapping[str, int]
) -> tuple[Counter[int], dict[str, int]]:
    """Return the idle nodes by kind that stay awake: for deferred jobs, for new ones, and for those that few nodes fit.

    A new job counts if it could start on free nodes: the scheduler may not have planned it yet. A job that only some of
    the nodes could run keeps those that idle, until enough of them have been up for `start_patience_s`; the second
    result is since when they are, by job.
    """
    room, now_s, patience_s = pool.free_room(reserved), pool.snapshot.now_s, pool.site.start_patience_s
    free = pool.count_by_kind(pool.is_free)
    kept: Counter[int] = Counter()
    served: dict[str, int] = {}
    for job in _unnamed_parts(pool, deferred):
        kept.update(room.take_counts(job))
    for job in _unnamed_parts(pool, pool.waiting):
        fitting = pool.cluster.candidate_pools(job)
        is_new = job.start_s is None and now_s - max(job.submit_s, job.begin_s or 0) <= patience_s
        if is_new and job.nodes <= sum(free[kind] for kind in fitting):
            kept.update(room.take_counts(job))
        elif not job.hosts and job.request is not None and pool.is_selective(fitting):
            since_s = min(served_s.get(job.job_id, now_s), now_s)
            taken = room.take_counts(job, awake_only=True) if now_s - since_s < patience_s else None
            if taken is None or sum(taken.values()) >= job.nodes:
                served[job.job_id] = since_s
            kept.update(taken or {})
    return kept, served
