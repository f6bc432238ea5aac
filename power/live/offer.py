"""The nodes that a pool offers to jobs while `limit_capacity` is set: as many as its capacity policy has decided.

All other nodes are withdrawn. A withdrawn node is closed to jobs: a sleeping one is not woken for any job, and an awake
one sleeps as soon as its jobs have ended. A node is always on offer if an admin, a reservation or a job names it, and
if a waiting job could otherwise never start: a job keeps as many nodes that can run it as it requests.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node
from offpeak.power.live.cluster_snapshot import ClusterSnapshot
from offpeak.power.live.pool_state import PoolState, count_units, expected_end_of, holds_nodes, is_waiting

CAPACITY = "capacity"
"""The first word of the reason of a node that is not on offer to jobs."""

PickSleepers = Callable[[set[str], int], Mapping[str, int]]
"""Return the depths of at most so many of the idle nodes by name, those that sleep first as in a replay."""


@dataclass(frozen=True)
class PoolOffer:
    """How many of the usable nodes of a pool its policy offers, to the jobs of which partitions, and the reason."""

    pool: str
    partitions: frozenset[str]
    policy: str
    offered: int
    usable: int
    why: str

    @property
    def text(self) -> str:
        """The offer in words."""
        return f"{self.policy} offers {self.offered:,} of {self.usable:,} nodes"

    @property
    def limit(self) -> str:
        """The reason of a node that is not on offer."""
        return f"{CAPACITY}: {self.text}"


@dataclass(frozen=True)
class Offer:
    """The nodes on offer, and the idle ones that begin to sleep, by depth number."""

    nodes: frozenset[str]
    sleepers: Mapping[str, int]

    @classmethod
    def of(
        cls,
        pool: PoolState,
        floor: int,
        *,
        always: Collection[str],
        withdrawable: Collection[str],
        to_wake: Sequence[str],
        deferred: Iterable[Job],
        pick_sleepers: PickSleepers,
    ) -> Self:
        """Return the offer: nodes that must be offered, for each job enough that fit, then busy nodes, idle ones, and
        sleeping ones, up to the floor.

        Beside the `floor`, the nodes that somebody names are `always` on offer. `withdrawable` nodes may be closed to
        jobs. `to_wake` are the nodes that can be woken or called back, the first ones first. `deferred` jobs may start
        soon.
        """
        usable = [node for node, each in zip(pool.pool.nodes, pool.state.tolist(), strict=True) if each != FAILED]
        number = {node.name: pool.cluster.pool_of_node[node.name] for node in usable}
        awake = {node.name for node in pool.nodes_at((pool.state == ACTIVE) | pool.rising)}
        busy = _list_busy(pool, [node for node in usable if node.name in awake])
        idle = [node.name for node in pool.nodes_at(pool.is_idle)]
        # A sleeping node that rests is woken for a job only.
        resting = [name for name in number if name in withdrawable and name not in awake]
        preferred = dict.fromkeys((*busy, *idle, *to_wake, *resting))
        named = {name for name in number if name in always and name in withdrawable}
        offered = named | {name for name in number if name in awake and name not in withdrawable}
        for fit, width in _find_needs(pool, number, deferred).items():
            missing = width - sum(name in fit for name in offered)
            more = (name for name in preferred if name not in offered and name in fit)
            offered |= {name for name, _ in zip(more, range(missing), strict=False)}
        floor += len(named)
        _fill(offered, busy, floor)
        spare = [name for name in idle if name not in offered]
        sleepers = pick_sleepers(set(spare), len(spare) - max(floor - len(offered), 0))
        offered |= set(spare) - sleepers.keys()
        _fill(offered, to_wake, floor)
        return cls(frozenset(offered), sleepers)

    def describe(self, pool: PoolState, policy: str, why: str) -> PoolOffer:
        """Return the offer in numbers."""
        partitions = frozenset(name for node in pool.pool.nodes for name in node.partitions)
        return PoolOffer(pool.pool.name, partitions, policy, len(self.nodes), pool.usable_nodes, why)


def _fill(offered: set[str], names: Iterable[str], floor: int) -> None:
    for name in names:
        if len(offered) >= floor:
            return
        offered.add(name)


def _list_busy(pool: PoolState, awake: Iterable[Node]) -> list[str]:
    """Return the nodes with jobs: open ones first, and of these the nodes that are free last."""
    busy = {node.name for node in pool.nodes_at(pool.busy > 0)}
    ends = _find_ends(pool.pool.jobs, pool.cluster)
    found = [node for node in awake if node.name in busy]
    return [node.name for node in sorted(found, key=lambda node: (node.closed_by_us, -ends.get(node.name, 0)))]


def _find_ends(jobs: Iterable[Job], snapshot: ClusterSnapshot) -> dict[str, int]:
    """Return when the last job on each node is expected to end [Unix s]."""
    ends: dict[str, int] = {}
    for job in jobs:
        if holds_nodes(job):
            end_s = expected_end_of(job, snapshot.run_s, snapshot.now_s)
            ends |= {host: max(end_s, ends.get(host, 0)) for host in job.known_hosts}
    return ends


class Fit(NamedTuple):
    """The nodes that fit a job or a chunk: those of some pools of the cluster model, without the excluded ones."""

    pools: frozenset[int]
    excluded: frozenset[str] = frozenset()

    def names(self, number: Mapping[str, int]) -> frozenset[str]:
        """Return the names of the nodes that fit; `number` is the pool of each node."""
        return frozenset(name for name, each in number.items() if each in self.pools and name not in self.excluded)


def _find_needs(pool: PoolState, number: Mapping[str, int], deferred: Iterable[Job]) -> dict[frozenset[str], int]:
    """Return how many of some usable nodes the widest job needs: of waiting jobs, and of `deferred` ones that may
    start soon. `number` is the pool of each node in the cluster model.

    A job that is too wide for the nodes that fit it needs none. A job that excludes nodes, or has several chunks, may
    need nodes of every type, so it needs as many as there are.
    """
    names: dict[Fit, frozenset[str]] = {}
    needs: dict[frozenset[str], int] = {}
    particular = [job for job in pool.cluster.view.jobs if _is_particular(job) and is_waiting(job, pool.cluster.now_s)]
    for job in (*pool.waiting, *deferred, *particular):
        for fit, width in _list_fits(job, pool):
            if fit not in names:
                names[fit] = fit.names(number)
            has = len(names[fit])
            if _is_particular(job) or width <= has:
                needs[names[fit]] = max(min(width, has), needs.get(names[fit], 0))
    return needs


def _is_particular(job: Job) -> bool:
    return job.request is not None and bool(job.request.excluded or job.request.chunks[1:])


def _list_fits(job: Job, pool: PoolState) -> Iterable[tuple[Fit, int]]:
    """Yield the nodes that fit the job, and those that fit each of several chunks, with the number that it needs."""
    width = max(job.nodes, -(-count_units(job, pool.units_per_node) // pool.units_per_node))
    excluded = job.request.excluded if job.request else frozenset[str]()
    yield Fit(frozenset(pool.cluster.candidate_pools(job)), excluded), width
    if job.request is not None and job.request.chunks[1:]:
        for chunk in job.request.chunks:
            alone = job.request._replace(chunks=(chunk,))
            yield Fit(frozenset(pool.cluster.cluster.candidates(alone)), excluded), min(chunk.copies, width)
