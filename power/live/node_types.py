"""Splits a pool with nodes of several types, so that capacity is decided by type: each has nodes and jobs of its own.

A type is a number of CPUs, an amount of memory and the GPUs of a node. A job counts for the types whose nodes it has,
whose nodes the scheduler plans for it, or whose nodes it would get: awake ones first, without GPUs if it requests none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from offpeak.model.cluster import NodeType
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.plugin.capacity.port import TypeShare
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.power.live.cluster_snapshot import ClusterSnapshot
from offpeak.power.live.node_room import NodeRoom
from offpeak.power.live.pool_state import RISING_DEPTH, NodePool, holds_nodes, is_deferred, is_waiting

EQUAL_MEMORY = 1.05
"""Nodes of one type report slightly different memory; a larger ratio is another type."""


def find_types(nodes: Iterable[Node]) -> dict[NodeType, list[Node]]:
    """Return the nodes by type, the type with the most nodes first; its memory is the least of its nodes."""
    alike: dict[tuple[int, tuple[tuple[str, int], ...]], dict[int, list[Node]]] = {}
    for node in nodes:
        alike.setdefault((node.cpus, node.gpus), {}).setdefault(node.memory_mib, []).append(node)
    found: dict[NodeType, list[Node]] = {}
    for (cpus, gpus), by_memory in alike.items():
        least = last = 0
        for memory_mib in sorted(by_memory):
            if memory_mib > last * EQUAL_MEMORY:
                least = memory_mib
            last = memory_mib
            found.setdefault(NodeType(cpus, least, gpus), []).extend(by_memory[memory_mib])
    place = {node.name: number for number, node in enumerate(nodes)}
    for members in found.values():
        members.sort(key=lambda node: place[node.name])
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


class NodePlace(NamedTuple):
    """What the scheduler knows of a node: its equipment in words, and its partitions as "batch,gpu"; "" if unknown.

    `left` is its state there and what to type, for a node that is on and that no job can use.
    """

    node_type: str = ""
    partitions: str = ""
    left: str = ""


UNKNOWN_PLACE = NodePlace()


def find_node_places(nodes: Iterable[Node]) -> dict[str, NodePlace]:
    """Return the place of each node by name. Nodes of unknown equipment have no type."""
    return {
        node.name: NodePlace(kind.equipment if kind.cores else "", ",".join(node.partitions))
        for kind, members in find_types(nodes).items()
        for node in members
    }


@dataclass
class TypeSplit:
    """A pool by node types. Jobs are placed one after the other; `load` is what each type has to do, by its nodes."""

    pool: NodePool
    types: Mapping[NodeType, Sequence[Node]]
    snapshot: ClusterSnapshot
    shared: bool
    room: NodeRoom
    usable: Sequence[int]
    load: list[float]

    @classmethod
    def of(cls, pool: NodePool, states: Mapping[str, int], snapshot: ClusterSnapshot, *, shared: bool) -> Self:
        """Return the split of a pool; `states` are those of the nodes, as in offpeak.model.node_states."""
        types = find_types(pool.nodes)
        free = [node for node in pool.nodes if states[node.name] != FAILED and node.use is NodeUse.FREE]
        ready = {node.name for node in free if states[node.name] in {ACTIVE, *RISING_DEPTH}}
        awake = [node for node in free if node.name in ready]
        sleeping = [node for node in free if node.name not in ready]
        return cls(
            pool,
            types,
            snapshot,
            shared,
            room=NodeRoom.of(snapshot, awake, sleeping=sleeping, shared=shared),
            usable=[sum(states[node.name] != FAILED for node in nodes) for nodes in types.values()],
            load=[0.0] * len(types),
        )

    def pools(self) -> tuple[NodePool, ...]:
        """Return the pools of the types, the largest first; the pool itself if all nodes are of one type."""
        if len(self.types) == 1:
            return (self.pool,)
        pool_of = self.snapshot.pool_of_node
        numbers = [{pool_of[node.name] for node in nodes} for nodes in self.types.values()]
        every = frozenset[int]().union(*numbers)
        pools, before = [], 0
        for (equipment, nodes), own, jobs in zip(self.types.items(), numbers, self.place_all(), strict=True):
            share = TypeShare(before, before + len(nodes), len(self.pool.nodes))
            name = f"{self.pool.name}: {equipment.equipment}"
            pools.append(NodePool(name, tuple(nodes), tuple(jobs), every - own, share))
            before += len(nodes)
        return tuple(pools)

    @cached_property
    def _type_of_node(self) -> Mapping[str, int]:
        return {node.name: at for at, nodes in enumerate(self.types.values()) for node in nodes}

    @cached_property
    def _type_of_pool(self) -> Mapping[int, int]:
        return {self.snapshot.pool_of_node[name]: at for name, at in self._type_of_node.items()}

    @cached_property
    def _used(self) -> Sequence[int]:
        return [sum(node.use is NodeUse.USED for node in nodes) for nodes in self.types.values()]

    @cached_property
    def _cpus(self) -> Sequence[int]:
        return [max(equipment.cores, 1) for equipment in self.types]

    def place_all(self) -> list[list[Job]]:
        """Return the parts of jobs for each type: of jobs with nodes, of waiting ones in queue order, of later ones."""
        now_s = self.snapshot.now_s
        found: list[list[Job]] = [[] for _ in self.types]
        current = [
            job for job in self.pool.jobs if holds_nodes(job) or is_waiting(job, now_s) or is_deferred(job, now_s)
        ]
        current.sort(key=lambda job: (not holds_nodes(job), is_deferred(job, now_s), -job.priority, job.submit_s))
        for job in current:
            for at, part in self._place(job):
                found[at].append(part)
        return found

    def _place(self, job: Job) -> Iterator[tuple[int, Job]]:
        names = job.known_hosts or tuple(job.required_hosts)
        by_type: dict[int, list[str]] = {}
        for name in names:
            if name in self._type_of_node:
                by_type.setdefault(self._type_of_node[name], []).append(name)
        if job.is_unclear and not by_type:
            # Any of these nodes may be what the job needs.
            yield from ((at, job) for at in self._candidates(job))
        elif by_type:
            more = max(max(job.nodes, 1) - len(names), 0)
            for at, hosts in by_type.items():
                yield self._part(job, at, len(hosts) + more, hosts=",".join(hosts) if job.hosts else "")
                more = 0
        elif job.state is JobState.PENDING and self.room.left(job) >= max(job.nodes, 1):
            yield from self._take(job)
        elif candidates := self._candidates(job):
            yield from self._queue(job, candidates)

    def _candidates(self, job: Job) -> list[int]:
        """Return the types that the job could use; a job that has nodes is on a type with used nodes."""
        found = sorted(
            {self._type_of_pool[pool] for pool in self.snapshot.candidate_pools(job) if pool in self._type_of_pool}
        )
        return [at for at in found if self._used[at]] or found if holds_nodes(job) else found

    def _take(self, job: Job) -> Iterator[tuple[int, Job]]:
        """Place the job on free nodes; the tasks of an array that find none wait for the type with most of them."""
        startable = self.room.startable_tasks(job)
        nodes: dict[int, int] = {}
        tasks: dict[int, int] = {}
        for pool, placed in self.room.take(job).items():
            at = self._type_of_pool[pool]
            nodes[at] = nodes.get(at, 0) + len(placed)
            tasks[at] = tasks.get(at, 0) + sum(placed)
        if not job.array_id or not nodes:
            yield from (self._part(job, at, count) for at, count in nodes.items())
            return
        width = max(job.nodes, 1)
        parts = {at: (count // width if width > 1 else tasks[at]) for at, count in nodes.items()}
        first = max(parts, key=lambda at: parts[at])
        parts[first] += startable - sum(parts.values())
        for at, count in parts.items():
            if count:
                self.load[at] += count * self._size(job, at) / max(self.usable[at], 1)
                yield at, job._replace(tasks=count, task_limit=0)

    def _queue(self, job: Job, candidates: Sequence[int]) -> Iterator[tuple[int, Job]]:
        """Place the job behind the shortest queue of a type with enough nodes, else on several types."""
        width = max(job.nodes, 1)
        wide = [at for at in candidates if self.usable[at] >= width]
        if wide:
            yield self._part(job, min(wide, key=lambda at: self.load[at]), width)
            return
        for at in sorted(candidates, key=lambda at: -self.usable[at]):
            nodes = min(width, self.usable[at])
            width -= nodes
            if nodes:
                yield self._part(job, at, nodes)

    def _part(self, job: Job, at: int, nodes: int, hosts: str = "") -> tuple[int, Job]:
        """Return the part of a job on so many nodes of a type."""
        share = nodes / max(job.nodes, 1)
        self.load[at] += share * self._size(job, at) / max(self.usable[at], 1)
        if share == 1:
            return at, job
        return at, job._replace(nodes=nodes, cpus=max(round(job.cpus * share), 1), hosts=hosts)

    def _size(self, job: Job, at: int) -> float:
        """Return how many nodes of the type the job, or one of its tasks, fills."""
        if job.whole_nodes or not self.shared:
            return max(job.nodes, 1)
        return job.cpus / self._cpus[at]
