"""The site as the replays of its levers need it: usable nodes by class, and jobs that wait or run at present."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from offpeak.ledger.rows import JobUse
from offpeak.model.cluster import Cluster, Pool
from offpeak.model.node_class import NodeClass
from offpeak.settings.table import Settings
from plugin.day_plan.pools import is_usable
from plugin.scheduler.cluster_view import cluster_of
from plugin.scheduler.job import Job
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.live.pool_state import is_waiting
from services.accounts.ended_jobs import RUNS, has_run
from services.accounts.job_draws import JobDraw

MOST_TASKS = 10_000
"""Of an array so many waiting tasks count."""


@dataclass(frozen=True)
class LeverSite:
    """The site as replays need it: its pools of usable nodes, and the class of each pool that may sleep, else None.

    `known_since` is when the record of its jobs begins [Unix s]; `not_ended` are the jobs that wait or run.
    `is_active`: the mode lets the agent's decisions through.
    """

    settings: Settings
    cluster: Cluster
    classes: tuple[NodeClass | None, ...]
    zone: tzinfo
    known_since: float
    not_ended: tuple[JobUse, ...]
    is_active: bool


@dataclass(frozen=True)
class LeverSection:
    """The settings, the nodes that may be switched, their classes, the zone of the days, and if the mode is active."""

    settings: Settings
    machines: Collection[str]
    class_of: Callable[[str], NodeClass | None]
    zone: tzinfo
    is_active: bool


def make_lever_site(
    section: LeverSection,
    view: SchedulerView,
    traits: SchedulerTraits,
    not_ended: tuple[JobUse, ...],
    known_since: float,
) -> LeverSite:
    """Return the site of a view: nodes of different classes are in different pools, unusable nodes in none."""
    usable = replace(view, nodes=tuple(filter(is_usable, view.nodes)))
    cluster = cluster_of(usable, traits.partitions, features=())
    pools: list[Pool] = []
    classes: list[NodeClass | None] = []
    for pool in cluster.pools:
        by_class: dict[NodeClass | None, set[str]] = defaultdict(set)
        for name in sorted(pool.names):
            by_class[section.class_of(name) if name in section.machines else None].add(name)
        pools += [pool._replace(nodes=len(names), names=frozenset(names)) for names in by_class.values()]
        classes += by_class
    cluster = replace(cluster, pools=tuple(pools), reservations={})
    return LeverSite(
        settings=section.settings,
        cluster=cluster,
        classes=tuple(classes),
        zone=section.zone,
        known_since=known_since,
        not_ended=not_ended,
        is_active=section.is_active,
    )


def jobs_not_ended(view: SchedulerView, draws: Mapping[str, JobDraw], run_s: Mapping[str, int]) -> tuple[JobUse, ...]:
    """Return the jobs that run or wait, as rows with the ends and energies that are expected of them."""
    running = [
        _expected(job, job.start_s or view.at_s, view.at_s, draws, run_s)
        for job in view.jobs
        if job.state in RUNS and has_run(job)
    ]
    waiting = [job for job in view.jobs if is_waiting(job, view.at_s)]
    pending = [
        _expected(job, view.at_s, view.at_s, draws, run_s) for job in waiting for _ in range(min(job.tasks, MOST_TASKS))
    ]
    return (*running, *pending)


def _expected(job: Job, start_s: int, now_s: int, draws: Mapping[str, JobDraw], run_s: Mapping[str, int]) -> JobUse:
    end_s = max(start_s + run_s.get(job.job_id, job.limit_s or 1), now_s + 1)
    draw = draws.get(job.job_id)
    energy_j = None if draw is None else draw.node_w * max(1, job.nodes) * (end_s - start_s)
    return JobUse(
        job=job.job_id,
        started_unix_s=float(start_s),
        ended_unix_s=float(end_s),
        user=job.user,
        account=job.account,
        partition=job.partitions[0] if job.partitions else "",
        nodes=job.hosts,
        energy_j=energy_j,
        cost=None,
        currency="",
        submitted_unix_s=float(job.submit_s),
        limit_s=None if job.limit_s is None else float(job.limit_s),
        node_count=job.nodes,
        cpus=job.cpus,
    )
