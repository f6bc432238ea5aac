"""Which jobs compete for the same nodes, and how many nodes each would take.

Jobs compete if their requests could use nodes of the same pool, or if a chain of such jobs joins them. Jobs whose
partitions have different priority tiers, or that use a reservation, are kept apart: the scheduler starts them by other
rules than their priorities.

An array is one job: what counts is a task, times the tasks that could start now.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from offpeak.model.cluster import Cluster, competition_groups
from offpeak.model.request import Request
from plugin.scheduler.job import Job, JobState


class CompetitionGroup(NamedTuple):
    """A set of pools by its first one, the priority tiers of the partitions, and the reservation, "" for none.

    Of jobs with different `precedence` the scheduler puts the higher first, whatever their priority.
    """

    pool: int
    tiers: tuple[int, ...]
    reservation: str
    precedence: tuple[int, int]


NO_GROUP = CompetitionGroup(-1, (), "", (0, 0))
"""The group of jobs that fit no node, and of those whose request is not understood."""


class RequestFit(NamedTuple):
    """A request's candidate pools, the nodes it fills of the largest of them, and `why_not` if it could run nowhere."""

    pools: tuple[int, ...]
    tiers: tuple[int, ...]
    filled_nodes: float
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Competition:
    """The groups of the jobs that wait. Equal requests are looked up once."""

    cluster: Cluster
    waiting: Sequence[Job]
    _fits: dict[Request, RequestFit] = field(default_factory=dict)
    _fit_of_id: dict[int, RequestFit] = field(default_factory=dict)
    _group_of_pool: dict[int, int] = field(default_factory=dict)
    _group_of_id: dict[int, CompetitionGroup] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requests = {id(job.request): job.request for job in self.waiting if job.plain and job.request}
        candidates = {request: self._fit(request).pools for request in requests.values()}
        for request, group in competition_groups(candidates).items():
            self._group_of_pool.update(dict.fromkeys(candidates[request], group))

    def fit(self, job: Job) -> RequestFit:
        """Return where the job could run."""
        if (found := self._fit_of_id.get(id(job.request))) is not None:
            return found
        if job.request is None:
            return RequestFit((), (), 0.0, f"its request is not understood: {job.request_problem or 'it has none'}")
        return self._fit(job.request)

    def _fit(self, request: Request) -> RequestFit:
        found = self._fits.get(request)
        if found is None:
            found = self._fits[request] = _fit_of(self.cluster, request)
        # Readers give jobs with equal terms the same object, and a look-up by value costs a hash of all terms.
        self._fit_of_id[id(request)] = found
        return found

    def group(self, job: Job) -> CompetitionGroup:
        """Return the group in which the job competes."""
        if (found := self._group_of_id.get(id(job.request))) is not None:
            return found
        fit, group = self.fit(job), NO_GROUP
        if job.request and fit.pools:
            first = fit.pools[0]
            pool, precedence = self._group_of_pool.get(first, first), self.cluster.precedence(job.request)
            group = CompetitionGroup(pool, fit.tiers, job.request.reservation, precedence)
        return self._group_of_id.setdefault(id(job.request), group)

    def groups(self, job: Job) -> frozenset[CompetitionGroup]:
        """Return the groups whose waiting jobs a started job could have passed.

        A started job is listed with the partition in which it runs only, so one of several tiers passes all groups that
        have its tier. A request that fits no nodes any more counts by the nodes that the job has.
        """
        fit = self.fit(job)
        usable = fit.pools or self._pools_of_hosts(job)
        pools = {self._group_of_pool[pool] for pool in usable if pool in self._group_of_pool}
        partitions = self.cluster.partitions
        tiers = {partitions[name].priority_tier for name in job.partitions if name in partitions}
        return frozenset(
            group
            for group in self._waiting_groups
            if group.pool in pools
            and group.reservation == job.reservation
            and (not group.tiers or not tiers or not tiers.isdisjoint(group.tiers))
        )

    @cached_property
    def _waiting_groups(self) -> frozenset[CompetitionGroup]:
        return frozenset(map(self.group, (job for job in self.waiting if job.plain)))

    def _pools_of_hosts(self, job: Job) -> tuple[int, ...]:
        hosts = frozenset(job.host_names)
        return tuple(number for number, pool in enumerate(self.cluster.pools) if not pool.names.isdisjoint(hosts))

    def pools_of(self, jobs: Iterable[Job]) -> frozenset[int]:
        """Return all candidate pools of the jobs."""
        return frozenset(pool for job in jobs for pool in self.fit(job).pools)

    def may_use(self, job: Job, pools: frozenset[int]) -> bool:
        """Return whether the job could use one of the pools; one whose request is not understood might."""
        return job.request is None or not pools.isdisjoint(self.fit(job).pools)

    def filled_nodes(self, job: Job) -> float:
        """Return how many nodes the job, or a task of it, fills: shares of nodes add up."""
        return self.fit(job).filled_nodes or max(job.nodes, 1)

    def share(self, job: Job) -> float:
        """Return the share of its nodes that the job fills, at most 1."""
        return min(1.0, self.filled_nodes(job) / max(job.nodes, 1))


def _fit_of(cluster: Cluster, request: Request) -> RequestFit:
    pools = cluster.candidates(request)
    if not pools:
        return RequestFit((), (), 0.0, f"its request fits no nodes: {cluster.misfit(request)}")
    partitions = [cluster.partitions[name] for name in request.partitions]
    tiers = cluster.tiers(request)
    if request.whole_nodes or (partitions and not any(partition.shared for partition in partitions)):
        return RequestFit(pools, tiers, 0.0)
    largest = max((cluster.pools[pool] for pool in pools), key=lambda pool: pool.nodes)
    return RequestFit(pools, tiers, sum(chunk.copies * largest.node_type.share(chunk) for chunk in request.chunks))


def find_split_arrays(jobs: Iterable[Job]) -> frozenset[str]:
    """Return the arrays of which waiting tasks have records of their own: a change of the array would reach them."""
    waits = (JobState.PENDING, JobState.HELD)
    return frozenset(job.array_id for job in jobs if job.array_id and not job.is_array and job.state in waits)
