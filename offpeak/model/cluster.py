"""A cluster: pools of equal nodes, the partitions over them, and which nodes a request could use.

Homogeneous machines are clusters with one pool. The simulator, the estimate, the queue hook, the plan and the broker
decide on this model. Two jobs compete if their requests could use nodes of the same pool.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from offpeak.model.limits import DEFAULT_PREEMPTION, Limit, PreemptionRules, PreemptMode, Qos, SitePriority, qos_limits
from offpeak.model.request import Chunk, Request
from offpeak.text import counted

MIB_PER_GIB = 1024
DEFAULT_TIER = 1
UNKNOWN = 0
"""Cores or memory of a node that its source does not tell; every request fits them."""
_STOPPING = frozenset((PreemptMode.REQUEUE, PreemptMode.CANCEL))


def memory_text(memory_mib: int) -> str:
    """Return "192 GiB", small amounts with three digits or in MiB: "1.5 GiB", "512 MiB"."""
    gib = memory_mib / MIB_PER_GIB
    return f"{memory_mib} MiB" if gib < 1 else f"{gib:.3g} GiB" if gib < 100 else f"{gib:,.0f} GiB"


class NodeType(NamedTuple):
    """The equipment of a node: `gpus` are types with counts, `power_class` and `enclosure` are "" where not known."""

    cores: int
    memory_mib: int = UNKNOWN
    gpus: tuple[tuple[str, int], ...] = ()
    features: frozenset[str] = frozenset()
    power_class: str = ""
    enclosure: str = ""

    @property
    def equipment(self) -> str:
        """Cores, memory and GPUs in words: "64 cores, 256 GiB, 4 a100 GPUs"."""
        terms = [counted(self.cores, "core") if self.cores else "unknown equipment"]
        if self.memory_mib:
            terms.append(memory_text(self.memory_mib))
        terms += [
            " ".join(filter(None, (f"{count:,}", name, "GPU" if count == 1 else "GPUs"))) for name, count in self.gpus
        ]
        return ", ".join(terms)

    def gpu_count(self, gpu_type: str = "") -> int:
        """Return the number of GPUs of that type, of all types for ""."""
        return sum(count for name, count in self.gpus if gpu_type in ("", name))

    def holds(self, chunk: Chunk) -> int:
        """Return how many such parts an empty node of this type holds."""
        if not chunk.accepts(self.features):
            return 0
        room = chunk.copies
        if self.cores != UNKNOWN and chunk.cores:
            room = min(room, self.cores // chunk.cores)
        if self.memory_mib != UNKNOWN and chunk.memory_mib:
            room = min(room, self.memory_mib // chunk.memory_mib)
        if chunk.gpus:
            room = min(room, self.gpu_count(chunk.gpu_type) // chunk.gpus)
        return room

    def surplus(self, chunk: Chunk) -> tuple[int, int, int]:
        """Return the GPUs, MiB and cores that one such part leaves of an empty node; a chunk fills the least first."""
        gpus = self.gpu_count() - chunk.gpus
        return gpus, max(0, self.memory_mib - chunk.memory_mib), max(0, self.cores - chunk.cores)

    def share(self, chunk: Chunk) -> float:
        """Return the share of a node that one such part takes: that of its scarcest resource, at most 1."""
        shares = [0.0]
        if self.cores:
            shares.append(chunk.cores / self.cores)
        if self.memory_mib:
            shares.append(chunk.memory_mib / self.memory_mib)
        if gpus := self.gpu_count(chunk.gpu_type):
            shares.append(chunk.gpus / gpus)
        return min(1.0, max(shares))


class Pool(NamedTuple):
    """`nodes` equal nodes in the same partitions; `names` are theirs, empty where the source names none."""

    node_type: NodeType
    partitions: frozenset[str]
    nodes: int
    names: frozenset[str] = frozenset()

    def holds(self, chunk: Chunk) -> int:
        """Return how many such parts an empty node of the pool holds."""
        if chunk.host and self.names and chunk.host not in self.names:
            return 0
        return self.node_type.holds(chunk)


class Partition(NamedTuple):
    """A partition (PBS: a queue); limits are None if there is none. `shared`: jobs may share its nodes.

    Jobs of a higher `priority_tier` go first, whatever their priority. `preempts`: they may stop jobs of lower tiers.
    `preempt_mode` says what happens to its own jobs then. The limits of the QOS named `qos` hold for all its jobs; ""
    for none. `job_factor` is the partition's part in Slurm's multifactor priority, relative to the highest one.
    Jobs that name no partition go to the one that `is_default`.
    """

    name: str
    shared: bool = False
    priority_tier: int = DEFAULT_TIER
    most_nodes: int | None = None
    limit_s: int | None = None
    preempts: bool = False
    qos: str = ""
    preempt_mode: PreemptMode = PreemptMode.REQUEUE
    job_factor: int = 1
    is_default: bool = False


class ClusterNode(NamedTuple):
    """A node by name, as a source of the model lists it."""

    name: str
    node_type: NodeType
    partitions: frozenset[str]


class SchedulerTiming(NamedTuple):
    """When a scheduler decides [s], 0 where it decides at once; `text` says it in words, "" if it is not known.

    Passes take place at multiples of `sched_interval_s`, those that reserve and backfill at multiples of
    `bf_interval_s`; they plan the starts of up to `bf_most_jobs` jobs, 0 for the default. Nodes stay taken for
    `completing_s` after a job. Expected ends within a window count together: of `end_window_s` at first, at each step
    longer by `end_window_step_s`, or twice as long where that is 0. Planned starts keep whole nodes for whole steps of
    `bf_resolution_s`; 0: what the job requests, for its time. Jobs on woken nodes start at multiples of `boot_check_s`.
    A job that was stopped for another waits again after `requeue_s`. The agent orders each `order_interval_s`.
    """

    sched_interval_s: int = 0
    bf_interval_s: int = 0
    bf_most_jobs: int = 0
    bf_resolution_s: int = 0
    completing_s: int = 0
    end_window_s: int = 0
    end_window_step_s: int = 0
    boot_check_s: int = 0
    requeue_s: int = 0
    order_interval_s: int = 0
    text: str = ""


NO_TIMING = SchedulerTiming()


@dataclass(frozen=True)
class Cluster:
    """Pools; by name partitions, nodes of reservations, counts of licences, and the QOS, none if they are not known.

    A partition that only pools name has the defaults of Partition. `timing` is that of its scheduler, as far as known;
    `priority` is None where the order of jobs is not known. `preemption` counts where partitions or QOS preempt.
    """

    pools: tuple[Pool, ...]
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    reservations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    licences: Mapping[str, int] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    timing: SchedulerTiming = NO_TIMING
    priority: SitePriority | None = None
    preemption: PreemptionRules = DEFAULT_PREEMPTION

    def __post_init__(self) -> None:
        named = frozenset[str]().union(*(pool.partitions for pool in self.pools))
        if missing := sorted(named.difference(self.partitions)):
            defaults = {name: Partition(name) for name in missing}
            object.__setattr__(self, "partitions", {**self.partitions, **defaults})

    @cached_property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(pool.nodes for pool in self.pools)

    @cached_property
    def node_names(self) -> frozenset[str]:
        """The names of the nodes, as far as there are any."""
        return frozenset[str]().union(*(pool.names for pool in self.pools))

    @cached_property
    def features(self) -> frozenset[str]:
        """The features of all nodes."""
        return frozenset[str]().union(*(pool.node_type.features for pool in self.pools))

    def candidates(self, request: Request) -> tuple[int, ...]:
        """Return the pools with a node that could run a part of the request, by number; () if it fits nowhere."""
        if self.misfit(request):
            return ()
        pools = ((number, self.pools[number]) for number in self.usable_pools(request))
        return tuple(number for number, pool in pools if any(pool.holds(chunk) for chunk in request.chunks))

    def parts_per_node(self, request: Request) -> tuple[tuple[int, ...], ...]:
        """Return for each chunk how many of its parts an empty node of each pool holds, 0 if no node may be used."""
        reachable = frozenset(self.usable_pools(request))
        return tuple(
            tuple(pool.holds(chunk) if number in reachable else 0 for number, pool in enumerate(self.pools))
            for chunk in request.chunks
        )

    def takes_whole_nodes(self, request: Request, pool: Pool) -> bool:
        """Tell whether the request gets whole nodes of the pool, because of itself or of all its partitions there."""
        names = pool.partitions & frozenset(request.partitions) if request.partitions else pool.partitions
        return request.whole_nodes or not any(self.partitions[name].shared for name in names)

    def limits_of(self, request: Request) -> tuple[tuple[Limit, int], ...]:
        """Return the limits that a job counts against while it runs, and how much it takes of each.

        Licences and QOS that the cluster does not know have no limits, nor have the QOS of several partitions.
        """
        licences = [
            (Limit(name, "licences", self.licences[name]), amount)
            for name, amount in request.licences
            if amount and name in self.licences
        ]
        of_partitions = {each.qos for each in self._partitions_of(request)}
        names = (*(of_partitions if len(of_partitions) == 1 else ()), request.qos)
        known = dict.fromkeys(name for name in names if name in self.qos)
        if not known:
            return tuple(licences)
        return (*licences, *qos_limits(request, self.counted_cores(request), tuple(self.qos[name] for name in known)))

    def counted_cores(self, request: Request) -> int:
        """Return the cores of a job that limits count: of whole nodes all, of the pool that each chunk fills first.

        slurmctld counts the cores that the job would get (acct_policy_job_runnable_post_select), not those requested.
        """
        return sum(self._counted_cores(request, chunk) for chunk in request.chunks)

    def _counted_cores(self, request: Request, chunk: Chunk) -> int:
        pools = [self.pools[number] for number in self.usable_pools(request)]
        fitting = [pool for pool in pools if pool.holds(chunk)]
        first = min(fitting, key=lambda pool: pool.node_type.surplus(chunk), default=None)
        if first is None or not self.takes_whole_nodes(request, first):
            return chunk.copies * chunk.cores
        nodes = chunk.copies if request.apart else -(-chunk.copies // first.holds(chunk))
        return max(chunk.copies * chunk.cores, nodes * first.node_type.cores)

    def tiers(self, request: Request) -> tuple[int, ...]:
        """Return the priority tiers of the request's partitions, sorted; policies never mix jobs of different ones."""
        return tuple(sorted({self.partitions[name].priority_tier for name in request.partitions}))

    def tier_of(self, request: Request) -> int:
        """Return the highest tier of the request's partitions."""
        return max((each.priority_tier for each in self._partitions_of(request)), default=DEFAULT_TIER)

    def partition_factor(self, request: Request) -> float:
        """Return the highest job factor of the request's partitions, 1 being the highest of all partitions."""
        most = max((each.job_factor for each in self.partitions.values()), default=0)
        return max((each.job_factor for each in self._partitions_of(request)), default=0) / max(most, 1)

    def qos_factor(self, request: Request) -> float:
        """Return the priority of the request's QOS, 1 being the highest of all QOS; 0 for a QOS that is not known."""
        most = max((each.priority for each in self.qos.values()), default=0)
        return self.qos[request.qos].priority / max(most, 1) if request.qos in self.qos else 0.0

    @cached_property
    def qos_preempt(self) -> bool:
        """Whether jobs stop others by their QOS; partitions do not preempt then."""
        return any(qos.preempts for qos in self.qos.values())

    @cached_property
    def preempts(self) -> bool:
        """Whether a job may stop another."""
        return any(each.preempt_mode in _STOPPING for each in self._preempted)

    @property
    def suspended(self) -> tuple[str, ...]:
        """The QOS, or if these do not preempt the partitions, whose jobs are suspended for others, by name."""
        return tuple(each.name for each in self._preempted if each.preempt_mode is PreemptMode.SUSPEND)

    @cached_property
    def _preempted(self) -> Sequence[Partition | Qos]:
        """The QOS, or if these do not preempt the partitions, whose jobs others may stop if their mode allows it."""
        if self.qos_preempt:
            names = frozenset[str]().union(*(each.preempts for each in self.qos.values()))
            return [each for each in self.qos.values() if each.name in names]
        highest = max((each.priority_tier for each in self.partitions.values() if each.preempts), default=0)
        return [each for each in self.partitions.values() if each.priority_tier < highest]

    @cached_property
    def _qos_levels(self) -> Mapping[str, int]:
        """The length of the longest chain of QOS each of which preempts the next, by the first of them."""
        levels = dict.fromkeys(self.qos, 0)
        for _ in self.qos if self.qos_preempt else ():
            for name, qos in self.qos.items():
                levels[name] = max((levels[each] + 1 for each in qos.preempts if each in levels), default=0)
        return levels

    @cached_property
    def qos_in_circles(self) -> tuple[str, ...]:
        """The QOS of which a job may stop another that may stop it in turn, directly or through others, by name."""
        stopped = {name for name, qos in self.qos.items() if qos.preempt_mode in _STOPPING}
        reached = {name: qos.preempts & stopped for name, qos in self.qos.items()}
        for _ in self.qos:
            reached = {name: some.union(*(reached[each] for each in some)) for name, some in reached.items()}
        return tuple(sorted(name for name, some in reached.items() if name in some))

    def precedence(self, request: Request) -> tuple[int, int]:
        """Return what puts a job before others whatever their priority: jobs that preempt others go before these."""
        return self._qos_levels.get(request.qos, 0), self.tier_of(request)

    def exempt_s(self, request: Request) -> int:
        """Return how long a job runs before others may stop it."""
        own = self.qos[request.qos].exempt_s if request.qos in self.qos else None
        return self.preemption.exempt_s if own is None else own

    def preempt_mode(self, by: Request, of: Request) -> PreemptMode:
        """Return what a job may do to another whose nodes it needs."""
        if self.qos_preempt:
            preempts = self.qos[by.qos].preempts if by.qos in self.qos else frozenset()
            return self.qos[of.qos].preempt_mode if of.qos in preempts and of.qos in self.qos else PreemptMode.OFF
        may_stop = any(each.preempts for each in self._partitions_of(by)) and self.tier_of(by) > self.tier_of(of)
        modes = {each.preempt_mode for each in self._partitions_of(of)}
        return modes.pop() if may_stop and len(modes) == 1 else PreemptMode.OFF

    def _partitions_of(self, request: Request) -> list[Partition]:
        return [self.partitions[name] for name in request.partitions if name in self.partitions]

    def misfit(self, request: Request) -> str:
        """Return why the request fits no nodes of the cluster, "" if it fits."""
        if absent := [name for name in request.partitions if name not in self.partitions]:
            return f"there is no partition {absent[0]}"
        reachable = [self.pools[number] for number in self.usable_pools(request)]
        if not reachable:
            return f"{_where(request)} has no node for it"
        for chunk in request.chunks:
            per_node = [pool.holds(chunk) for pool in reachable]
            if not any(per_node):
                return f"no node of {_where(request)} has {_text(chunk)}"
            parts = sum(
                pool.nodes * (min(room, 1) if request.apart else room)
                for pool, room in zip(reachable, per_node, strict=True)
            )
            if parts < chunk.copies:
                if request.apart:
                    return f"{_where(request)} has {parts} of {counted(chunk.copies, 'node')} with {_text(chunk)}"
                return f"{_where(request)} has room for {parts} of {counted(chunk.copies, 'part')} of {_text(chunk)}"
        return ""

    def _named_nodes(self, request: Request) -> frozenset[str] | None:
        """Return the nodes to which the request is bound by name, None if it is not."""
        reserved = self.reservations.get(request.reservation) if request.reservation else None
        if not request.hosts:
            return reserved
        return request.hosts if reserved is None else request.hosts & reserved

    @cached_property
    def _pools_of_partition(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for number, pool in enumerate(self.pools):
            for name in pool.partitions:
                found[name].append(number)
        return found

    def usable_pools(self, request: Request) -> Sequence[int]:
        """Return the pools of the request's partitions with a node that it may use, by number."""
        key = request.partitions, request.hosts, request.excluded, request.reservation
        found = self._usable_pools.get(key)
        if found is None:
            found = self._usable_pools[key] = self._find_usable_pools(request)
        return found

    @cached_property
    def _usable_pools(self) -> dict[tuple[object, ...], Sequence[int]]:
        """What `usable_pools` has found: many requests differ in their chunks only."""
        return {}

    def _find_usable_pools(self, request: Request) -> Sequence[int]:
        numbers: Iterable[int] = range(len(self.pools))
        if request.partitions:
            numbers = sorted({pool for name in request.partitions for pool in self._pools_of_partition.get(name, ())})
        named = self._named_nodes(request)
        if named is None and not request.excluded:
            return tuple(numbers)
        names = ((number, self.pools[number].names) for number in numbers)
        return tuple(
            number
            for number, has in names
            if not has or ((named is None or not has.isdisjoint(named)) and not has <= request.excluded)
        )


def _where(request: Request) -> str:
    names = ", ".join(request.partitions)
    place = f"partition {names}" if names else "the cluster"
    return f"reservation {request.reservation} in {place}" if request.reservation else place


def _text(chunk: Chunk) -> str:
    terms = [counted(chunk.cores, "core")]
    if chunk.memory_mib:
        has_gib = chunk.memory_mib >= MIB_PER_GIB
        terms.append(f"{chunk.memory_mib / MIB_PER_GIB:,.4g} GiB" if has_gib else f"{chunk.memory_mib} MiB")
    if chunk.gpus:
        terms.append(counted(chunk.gpus, f"{chunk.gpu_type} GPU".strip()))
    if chunk.host:
        terms.append(f"the name {chunk.host}")
    if chunk.features:
        terms.append("|".join("&".join(sorted(names)) for names in chunk.features))
    return ", ".join(terms)


def pools_of(nodes: Iterable[ClusterNode]) -> tuple[Pool, ...]:
    """Return the pools of nodes with equal type and partitions, in the order of their first nodes."""
    names: dict[tuple[NodeType, frozenset[str]], list[str]] = defaultdict(list)
    for node in nodes:
        names[node.node_type, node.partitions].append(node.name)
    return tuple(
        Pool(node_type, partitions, len(members), frozenset(members))
        for (node_type, partitions), members in names.items()
    )


Key = TypeVar("Key", bound=Hashable)


def competition_groups(candidates: Mapping[Key, Sequence[int]]) -> dict[Key, int]:
    """Return the group of each request from its candidate pools; requests without candidates are left out.

    Requests are in one group if a chain of shared pools joins them. Groups are numbered by their smallest pool.
    """
    joined: dict[int, int] = {}

    def root(pool: int) -> int:
        while joined.setdefault(pool, pool) != pool:
            joined[pool] = joined[joined[pool]]
            pool = joined[pool]
        return pool

    for pools in candidates.values():
        for pool in pools:
            low, high = sorted((root(pools[0]), root(pool)))
            joined[high] = low
    return {key: root(pools[0]) for key, pools in candidates.items() if pools}
