"""The nodes that are left for jobs, counted by pools of equal nodes, while jobs take them one after the other.

A job takes nodes of its candidate pools only: those whose nodes can run its request. It takes awake nodes before
sleeping ones, and leaves nodes with GPUs to the jobs that request GPUs while others are left.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from offpeak.plugin.scheduler.cluster_view import Allocation
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node
from offpeak.power.live.cluster_snapshot import ClusterSnapshot

MANY = 1 << 40
_OrderKey = tuple[int, tuple[str, ...], int, bool]


@dataclass
class NodeRoom:
    """The nodes that are left.

    An array takes nodes for the tasks that could start, and the next array gets what is left. Thus arrays of 100,000
    tasks count as no more nodes than they can use. `sleeping` nodes are taken last; `partly_used` nodes take tasks of
    arrays first. `watts` is the idle power of a node by pool: cheaper nodes are taken first.
    """

    _snapshot: ClusterSnapshot
    _shared: bool
    _levels: tuple[dict[int, int], ...]
    _partly_used: Sequence[Node] = ()
    _watts: Mapping[int, float] = field(default_factory=dict)
    _tasks_left: dict[str, int] = field(default_factory=dict)
    _orders: dict[_OrderKey, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: ClusterSnapshot,
        nodes: Iterable[Node],
        *,
        shared: bool,
        sleeping: Iterable[Node] = (),
        partly_used: Sequence[Node] = (),
        watts: Mapping[int, float] | None = None,
    ) -> Self:
        """Return the room on these nodes, none of which a job has taken yet."""
        levels = tuple(_count_by_pool(snapshot, each) for each in (nodes, sleeping))
        return cls(snapshot, shared, levels, partly_used, watts or {})

    def take(self, job: Job, *, awake_only: bool = False) -> dict[int, list[int]]:
        """Take nodes, and return for each pool the number of tasks on each of them, 1 on the nodes of wide tasks.

        A single job takes what is left if that is not enough; an array takes nodes for whole tasks. Others take none.
        """
        levels = self._levels[:1] if awake_only else self._levels
        tasks, beside = self.startable_tasks(job), 0
        holds = self._tasks_per_node(job) if tasks else {}
        width = self._width(job, holds)
        if tasks > 1 and width > 1:
            tasks = min(tasks, sum(level.get(pool, 0) for pool in holds for level in levels) // width)
        elif tasks > 1 and self._shared and not job.whole_nodes:
            beside = min(self._room_on_used_nodes(job, holds), tasks)
            tasks -= beside
        placed: dict[int, list[int]] = {}
        left = tasks * width
        for level, pool in self._in_order(job, holds, levels) if left else ():
            nodes = min(-(-left // holds[pool]), level.get(pool, 0))
            if nodes > 0:
                level[pool] -= nodes
                last = min(holds[pool], left - (nodes - 1) * holds[pool])
                placed.setdefault(pool, []).extend([holds[pool]] * (nodes - 1) + [last])
                left -= (nodes - 1) * holds[pool] + last
            if not left:
                break
        if job.array_id in self._tasks_left:
            self._tasks_left[job.array_id] -= beside + (tasks * width - left) // width
        return placed

    def take_counts(self, job: Job, *, awake_only: bool = False) -> dict[int, int]:
        """Take nodes as `take` does, and return how many of each pool."""
        return {pool: len(tasks) for pool, tasks in self.take(job, awake_only=awake_only).items()}

    def rows(self, job: Job) -> list[int]:
        """Return the tasks of each row that the job has in a queue: one for a single job, for an array one a node.

        A wide task is a row. An array that finds no node free has one row if its request fits a node.
        """
        if not job.array_id:
            return [1]
        placed = [tasks for each in self.take(job).values() for tasks in each]
        rows = [1] * (len(placed) // job.nodes) if job.nodes > 1 else placed
        is_blocked = not rows and self.startable_tasks(job) > 0 and bool(self._snapshot.candidate_pools(job))
        return [1] if is_blocked else rows

    def left(self, job: Job) -> int:
        """Return how many nodes are left that can run the job."""
        return sum(level.get(pool, 0) for level in self._levels for pool in self._snapshot.candidate_pools(job))

    def startable_tasks(self, job: Job) -> int:
        """Return how many tasks could start; tasks of one array share its limit."""
        if not job.task_limit:
            return job.tasks
        left = self._tasks_left.setdefault(job.array_id, self._snapshot.startable_limit(job))
        return max(min(job.tasks, left), 0)

    def _width(self, job: Job, pools: Iterable[int]) -> int:
        """Return the nodes that the job or one of its tasks needs: PBS counts cores only where chunks may share."""
        if job.tasks > 1 or job.nodes > 1 or job.whole_nodes or not self._shared:
            return max(job.nodes, 1)
        cores = max((self._snapshot.cluster.pools[pool].node_type.cores for pool in pools), default=0)
        return max(-(-job.cpus // cores), 1) if cores else 1

    def _in_order(
        self, job: Job, holds: Mapping[int, int], levels: Sequence[dict[int, int]]
    ) -> Iterator[tuple[dict[int, int], int]]:
        """Yield the pools, each with the level that it is in, in the order in which the job takes their nodes."""
        for pools in self._pools_by_cost(job, holds):
            for level in levels:
                yield from ((level, pool) for pool in pools)

    def _pools_by_cost(self, job: Job, holds: Mapping[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the pools in the order in which the job takes their nodes: those that suit it, and with spare GPUs."""
        # For single jobs the order depends on the request alone.
        key = (id(job.request), job.partitions, job.cpus if job.tasks > 1 else 0, job.whole_nodes)
        found = self._orders.get(key)
        if found is None:
            needs_gpus = job.request is not None and job.request.gpus > 0
            pools = self._snapshot.cluster.pools
            spare = {pool for pool in holds if not needs_gpus and pools[pool].node_type.gpu_count()}
            order = sorted(holds, key=lambda pool: (self._watts.get(pool, 0.0) / holds[pool], -holds[pool], pool))
            suited = tuple(pool for pool in order if pool not in spare)
            found = self._orders[key] = suited, tuple(pool for pool in order if pool in spare)
        return found

    def _tasks_per_node(self, job: Job) -> dict[int, int]:
        """Return how many tasks an empty node holds, by pool; whole nodes and nodes of wide tasks hold one."""
        fitting = self._snapshot.candidate_pools(job)
        if job.tasks <= 1 or not self._shared or job.whole_nodes or job.nodes > 1:
            return dict.fromkeys(fitting, 1)
        found = {}
        for at in fitting:
            node_type = self._snapshot.cluster.pools[at].node_type
            rooms = [node_type.cores // max(job.cpus, 1)]
            for chunk in job.request.chunks if job.request else ():
                rooms.append(node_type.holds(chunk._replace(copies=MANY)) // chunk.copies)
            found[at] = max(min(rooms), 1)
        return found

    def _room_on_used_nodes(self, job: Job, pools: Mapping[int, int]) -> int:
        """Return how many tasks of the array have room beside other jobs."""
        snapshot = self._snapshot
        fitting = [node for node in self._partly_used if snapshot.pool_of_node[node.name] in pools]
        return sum(_count_tasks_beside(node, snapshot.allocation(node.name), job) for node in fitting)


def _count_by_pool(snapshot: ClusterSnapshot, nodes: Iterable[Node]) -> dict[int, int]:
    found: dict[int, int] = {}
    for name in {node.name for node in nodes}:
        pool = snapshot.pool_of_node[name]
        found[pool] = found.get(pool, 0) + 1
    return found


def _count_tasks_beside(node: Node, held: Allocation, job: Job) -> int:
    """Return how many tasks have room on a node of which jobs hold some cores, memory and GPUs."""
    rooms = [(node.cpus - node.cpus_used) // max(job.cpus, 1)]
    chunks = job.request.chunks if job.request else ()
    memory_mib = sum(chunk.copies * chunk.memory_mib for chunk in chunks)
    gpus = sum(chunk.copies * chunk.gpus for chunk in chunks)
    if memory_mib and node.memory_mib:
        rooms.append((node.memory_mib - held.memory_mib) // memory_mib)
    if gpus:
        rooms.append((sum(number for _, number in node.gpus) - held.gpus) // gpus)
    return max(min(rooms), 0)
