"""The site as the replays of the levers need it: usable nodes by class, and the jobs that have not ended.

The agent makes it from its view; a process of its own replays it (`offpeak.services.accounts.lever_savings`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from hashlib import sha256

from offpeak.ledger.rows import JobUse
from offpeak.machines.inventory import Enclosure
from offpeak.model.cluster import Cluster, Pool
from offpeak.model.node_class import NodeClass
from offpeak.plugin.day_plan.inputs import is_usable
from offpeak.plugin.scheduler.cluster_view import cluster_of
from offpeak.plugin.scheduler.port import SchedulerTraits, SchedulerView
from offpeak.services.accounts.ended_jobs import RUNS, has_run
from offpeak.services.accounts.job_draws import JobDraw
from offpeak.services.accounts.job_use import job_row
from offpeak.settings.table import Settings

MOST_TASKS = 10_000
"""Of an array so many waiting tasks count."""


@dataclass(frozen=True)
class LeverSite:
    """The site as replays need it: its pools of usable nodes, and the class of each pool that may sleep, else None.

    `enclosures` are those of each pool that the inventory names: how many of the pool's last nodes, and of all nodes.
    `known_since` is when the record of its jobs begins [Unix s]; `not_ended` are the jobs that wait or run.
    `is_active`: the mode lets the agent's decisions through, None if not in all partitions alike.
    """

    settings: Settings
    cluster: Cluster
    classes: tuple[NodeClass | None, ...]
    enclosures: tuple[tuple[tuple[int, int], ...], ...]
    zone: tzinfo
    known_since: float
    not_ended: tuple[JobUse, ...]
    is_active: bool | None


@dataclass(frozen=True)
class LeverSection:
    """As `LeverSite`: the settings, the nodes that may be switched, classes and enclosures, the zone, the mode."""

    settings: Settings
    machines: Collection[str]
    class_of: Callable[[str], NodeClass | None]
    enclosure_of: Mapping[str, Enclosure]
    zone: tzinfo
    is_active: bool | None

    @property
    def in_force(self) -> str:
        """A digest of the mode and the settings by which the levers act: times under others are not replayed again."""
        settings, agent = self.settings, self.settings.agent
        policy = (agent.queue, agent.capacity, agent.min_on, agent.cycles_per_day, self.is_active)
        return sha256(repr((*policy, settings.capacity, settings.scheduling, settings.prices)).encode()).hexdigest()


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
        enclosures=tuple(enclosures_in(pool.names, section.enclosure_of) for pool in pools),
        zone=section.zone,
        known_since=known_since,
        not_ended=not_ended,
        is_active=section.is_active,
    )


def enclosures_in(names: Iterable[str], enclosure_of: Mapping[str, Enclosure]) -> tuple[tuple[int, int], ...]:
    """Return how many of these nodes are in each enclosure, and how many nodes it has; those that can be whole last."""
    inside = Counter(enclosure_of[name].name for name in names if name in enclosure_of)
    found = ((count, len(enclosure_of[name].nodes)) for name, count in sorted(inside.items()))
    return tuple(sorted(found, key=lambda each: each[0] == each[1]))


def jobs_not_ended(view: SchedulerView, draws: Mapping[str, JobDraw], run_s: Mapping[str, int]) -> tuple[JobUse, ...]:
    """Return the jobs that run or wait, as rows with the ends and energies that are expected of them."""
    found = [(job, job.start_s or view.at_s, 1) for job in view.jobs if job.state in RUNS and has_run(job)]
    found += [(job, view.at_s, min(job.tasks, MOST_TASKS)) for job in view.jobs if job.is_waiting(view.at_s)]
    rows: list[JobUse] = []
    for job, start_s, tasks in found:
        end_s = max(start_s + run_s.get(job.job_id, job.limit_s or 1), view.at_s + 1)
        draw = draws.get(job.job_id)
        energy_j = None if draw is None else draw.node_w * max(1, job.nodes) * (end_s - start_s)
        rows += [job_row(job._replace(start_s=start_s, end_s=end_s), energy_j, basis="expected")] * tasks
    return tuple(rows)
