"""The simulated scheduler's jobs and nodes, and their changes over time."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from offpeak.model.cluster import Cluster, NodeType, Partition
from offpeak.model.constants import DAY_S
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.job import JobState

SLEEP = "sleep"
"""Why a node is shut until its daemon registers again."""
ON_NODES = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED})


class NodeResources(NamedTuple):
    """What jobs have of a node, or what is left of it. Memory is MiB."""

    cores: int
    memory_mib: int
    gpus: int

    def plus(self, other: "NodeResources") -> "NodeResources":
        """Return the sum of both."""
        return NodeResources(self.cores + other.cores, self.memory_mib + other.memory_mib, self.gpus + other.gpus)

    def minus(self, other: "NodeResources") -> "NodeResources":
        """Return what is left without the other."""
        return NodeResources(self.cores - other.cores, self.memory_mib - other.memory_mib, self.gpus - other.gpus)

    def holds(self, other: "NodeResources") -> bool:
        """Return whether the other share is no larger in anything."""
        return all(own >= wanted for own, wanted in zip(self, other, strict=True))


NOTHING = NodeResources(0, 0, 0)


@dataclass
class SimJob:
    """A job of the simulated scheduler. Times are Unix seconds; `run_s` is how long the job really runs.

    `apart`: each chunk gets a node of its own. `holds` are the letters of its holds: u by its owner, o by an operator,
    s by the system. The job starts at `begin_s` at the earliest, after the end of the jobs in `after`. At most
    `task_limit` tasks of its array run at once, 0 for any number. `placed` are its nodes, with its share of each.
    `wants` are the requested resources by name, `tasks` the fields of Torque's task requests, `attributes` all other
    attributes of the submission. A job `may_be_requeued` once it has written a checkpoint.
    """

    number: int
    name: str
    user: str
    queue: str
    chunks: tuple[Chunk, ...]
    run_s: float
    submit_s: int
    limit_s: int | None = None
    apart: bool = True
    whole_nodes: bool = False
    index: int | None = None
    task_limit: int = 0
    priority: int = 0
    offset: float = 0.0
    rank: int = 0
    begin_s: int = 0
    holds: set[str] = field(default_factory=set)
    after: tuple[int, ...] = ()
    state: JobState = JobState.PENDING
    placed: dict[str, NodeResources] = field(default_factory=dict)
    start_s: float | None = None
    end_s: float | None = None
    lost: bool = False
    may_be_requeued: bool = False
    restarts: int = 0
    comment: str = ""
    wants: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """Its number, with its place in an array."""
        return f"{self.number}" if self.index is None else f"{self.number}[{self.index}]"

    @property
    def cpus(self) -> int:
        """The number of requested processors."""
        return sum(chunk.copies * chunk.cores for chunk in self.chunks)

    @property
    def nodes(self) -> int:
        """The number of requested nodes if each chunk has its own node."""
        return sum(chunk.copies for chunk in self.chunks)

    @property
    def longest_s(self) -> int:
        """How long it may run."""
        return self.limit_s or DAY_S


@dataclass
class SimNode:
    """A node of the simulated scheduler.

    `alive`: the daemon of the node answers, since or until `changed_s`. `shut` are the reasons why the node gets no new
    job. `shown_up`: the daemon does not answer, but the server still shows the node as up. `forgotten`: it has not
    answered since the server was started. `dead`: the node has lost its power and the server has not noticed; a job
    that starts there is lost. `power` is the power state in the eyes of the scheduler. `note` and `mark` are texts of
    admins and of offpeak. `power_order` is the last power order to the daemon, "" for none. A node with `partitions`
    runs only their jobs; a node without any runs the jobs of the queues that have no nodes of their own. `used` are the
    shares of jobs, `speed` is below 1 while a limited power slows them down.
    """

    name: str
    cpus: int
    memory_mib: int = 32_768
    features: tuple[str, ...] = ()
    gpus: tuple[tuple[str, int], ...] = ()
    partitions: frozenset[str] = frozenset()
    alive: bool = True
    shown_up: bool = False
    forgotten: bool = False
    dead: bool = False
    changed_s: int = 0
    shut: set[str] = field(default_factory=set)
    power: PowerState = PowerState.ON
    power_s: int = 0
    reason_s: int = 0
    note: str = ""
    mark: str = ""
    power_order: str = ""
    used: dict[str, NodeResources] = field(default_factory=dict)
    last_used_s: int = 0
    speed: float = 1.0

    @property
    def cpus_used(self) -> int:
        """How many processors jobs have."""
        return sum(share.cores for share in self.used.values())

    @property
    def node_type(self) -> NodeType:
        """Its equipment."""
        return NodeType(self.cpus, self.memory_mib, self.gpus, frozenset(self.features))

    @property
    def whole(self) -> NodeResources:
        """All of the node."""
        return NodeResources(self.cpus, self.memory_mib, self.node_type.gpu_count())

    @property
    def free(self) -> NodeResources:
        """What no job has; GPUs of several types count as one kind."""
        left = self.whole
        for share in self.used.values():
            left = left.minus(share)
        return left


def nodes_of(cluster: Cluster, now_s: int) -> dict[str, SimNode]:
    """Return the nodes of a cluster, which are up and have had no job yet, by name. Its pools must name their nodes."""
    return {
        name: SimNode(
            name,
            pool.node_type.cores,
            pool.node_type.memory_mib,
            tuple(sorted(pool.node_type.features)),
            pool.node_type.gpus,
            pool.partitions,
            changed_s=now_s,
            last_used_s=now_s,
        )
        for pool in cluster.pools
        for name in sorted(pool.names)
    }


@dataclass
class SimulatedCluster:
    """`jobs` by number and index, ended ones too. `wakes`: a job may be given sleeping nodes, and waits for them.

    `partitions` have tiers, and nodes that jobs do not share; a queue without a record shares its nodes. `scheduling`:
    whether anything is started. `value` is what jobs of a tier are sorted by, larger first and of equal ones the first
    in the queue, `begin` before when none starts, `reserved` what reservations keep of a node from a job.
    Jobs start in scheduling cycles: one each `iteration_s`, by default in each step, and the next step has one if a
    `cycle_is_due`, as after a submission and after the end of a job.
    """

    nodes: dict[str, SimNode]
    queues: tuple[str, ...] = ("batch",)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    wakes: bool = False
    value: Callable[[SimJob], float] = lambda job: job.priority + job.offset
    begin: Callable[[SimJob], int] = lambda job: job.begin_s
    reserved: Callable[[SimNode, SimJob], NodeResources] = lambda _node, _job: NOTHING
    scheduling: bool = True
    iteration_s: float = 0.0
    cycle_is_due: bool = True
    last_cycle_s: float = 0.0
    jobs: dict[tuple[int, int | None], SimJob] = field(default_factory=dict)
    started: list[SimJob] = field(default_factory=list)
    last_number: int = 0
    last_rank: int = 0
    stepped_s: float = 0.0

    def submit(self, job: SimJob) -> SimJob:
        """Take a job in, at the end of the queue; one without a number gets the next."""
        if not job.number:
            self.last_number += 1
            job.number = self.last_number
        self.last_rank += 1
        job.rank = self.last_rank
        self.jobs[job.number, job.index] = job
        self.cycle_is_due = True
        return job

    def step(self, now_s: float) -> None:
        """Let jobs end that are over, and in a cycle those start that can."""
        passed_s, self.stepped_s = now_s - (self.stepped_s or now_s), now_s
        is_slow = passed_s > 0 and any(node.speed < 1 for node in self.nodes.values())
        for job in self.jobs.values():
            if is_slow and job.state is JobState.RUNNING:
                # Jobs run longer by what their slowest node has lost since the last step.
                speed = min(self.nodes[name].speed for name in job.placed)
                job.run_s += (1 - speed) * min(passed_s, now_s - (job.start_s or now_s))
            if job.state in ON_NODES and job.start_s is not None:
                end_s = job.start_s + min(job.run_s, job.longest_s)
                if end_s <= now_s:
                    self.end(job, end_s)
        if self.scheduling and (self.cycle_is_due or now_s - self.last_cycle_s >= self.iteration_s):
            self.cycle_is_due, self.last_cycle_s = False, now_s
            tasks = Counter(job.number for job in self.jobs.values() if job.state in ON_NODES)
            for job in self.pending(now_s):
                is_limited = job.task_limit and tasks[job.number] >= job.task_limit
                if not is_limited and (placed := self.place(job)):
                    self._give(job, placed, now_s)
                    tasks[job.number] += 1
        for job in self.jobs.values():
            if job.state is JobState.STARTS and all(self.nodes[name].power is PowerState.ON for name in job.placed):
                job.state, job.start_s = JobState.RUNNING, now_s
                self.started.append(job)
                for name in job.placed:
                    if self.nodes[name].dead:
                        self._lose_jobs(name, now_s)

    def pending(self, now_s: float) -> list[SimJob]:
        """Return the jobs that could start now, the first to start first."""
        found = [job for job in self.jobs.values() if job.state is JobState.PENDING]
        found = [job for job in found if not job.holds and self.begin(job) <= now_s and not self.hangs(job)]

        def tier(job: SimJob) -> int:
            partition = self.partitions.get(job.queue)
            return partition.priority_tier if partition else 1

        return sorted(found, key=lambda job: (-tier(job), -self.value(job), job.rank))

    def place(self, job: SimJob) -> dict[str, NodeResources]:
        """Return the shares that the job could have by node, {} if it cannot start.

        Nodes that are up go first, then those with the fewest GPUs and the least memory.
        """
        whole = self.takes_whole_nodes(job)
        apart = job.apart or whole
        # A queue that has nodes of its own has no others.
        own = [node for node in self.nodes.values() if job.queue in node.partitions]
        usable = own or [node for node in self.nodes.values() if not node.partitions]
        usable = [node for node in usable if self.is_open(node)]
        usable.sort(key=lambda node: (node.power is not PowerState.ON, node.whole.gpus, node.memory_mib))
        left = {node.name: node.free.minus(self.reserved(node, job)) for node in usable}
        placed: dict[str, NodeResources] = {}
        for chunk in job.chunks:
            for _ in range(chunk.copies):
                for node in usable:
                    share = node.whole if whole else NodeResources(chunk.cores, chunk.memory_mib, chunk.gpus)
                    taken = apart and node.name in placed
                    suits = chunk.host in ("", node.name) and node.node_type.holds(chunk._replace(copies=1)) > 0
                    if suits and not taken and left[node.name].holds(share):
                        break
                else:
                    return {}
                left[node.name] = left[node.name].minus(share)
                placed[node.name] = placed.get(node.name, NOTHING).plus(share)
        return placed

    def takes_whole_nodes(self, job: SimJob) -> bool:
        """Return whether the job shares no node with other jobs: it or its partition says so."""
        partition = self.partitions.get(job.queue)
        return job.whole_nodes or (partition is not None and not partition.shared)

    def queues_of(self, node: SimNode) -> tuple[str, ...]:
        """Return the queues whose jobs the node runs."""
        if node.partitions:
            return tuple(sorted(node.partitions))
        owners = frozenset[str]().union(*(each.partitions for each in self.nodes.values()))
        return tuple(queue for queue in self.queues if queue not in owners)

    def is_open(self, node: SimNode) -> bool:
        """Whether jobs may be given the node."""
        if node.shut:
            return False
        return node.alive if node.power is PowerState.ON else self.wakes

    def end(self, job: SimJob, at_s: float) -> None:
        """Take a job off its nodes."""
        for name in job.placed:
            self.nodes[name].used.pop(job.job_id, None)
            self.nodes[name].last_used_s = int(at_s)
        self.cycle_is_due = self.cycle_is_due or bool(job.placed)
        job.state, job.end_s = JobState.ENDED, at_s

    def requeue(self, job: SimJob, now_s: float) -> None:
        """Put a running job back into the queue; what has run need not run again."""
        ran_s = now_s - (job.start_s or now_s)
        self.end(job, now_s)
        job.state, job.placed, job.start_s, job.end_s = JobState.PENDING, {}, None, None
        job.run_s, job.restarts = max(job.run_s - ran_s, 1.0), job.restarts + 1

    def hangs(self, job: SimJob) -> bool:
        """Whether it waits for others to end."""
        alive = {each.number for each in self.jobs.values() if each.state is not JobState.ENDED} if job.after else set()
        return any(number in alive for number in job.after)

    def comes_up(self, name: str, now_s: float) -> None:
        """A node's daemon registers."""
        node = self.nodes[name]
        node.alive, node.changed_s, node.power = True, int(now_s), PowerState.ON
        node.shown_up = node.forgotten = node.dead = False
        node.shut.discard(SLEEP)

    def restarts(self) -> None:
        """The server is started again: of nodes it knows nothing but what it was told, until their daemons register."""
        for node in self.nodes.values():
            node.forgotten, node.alive, node.shown_up = True, False, False

    def goes_down(self, name: str, now_s: float) -> None:
        """A node's daemon is gone, and what ran there is lost."""
        node = self.nodes[name]
        node.alive, node.shown_up, node.changed_s, node.dead = False, False, int(now_s), False
        self._lose_jobs(name, now_s)

    def loses_power(self, name: str, now_s: float) -> None:
        """A node is dead at once. The server counts it as up until `goes_down`."""
        self.nodes[name].dead = True
        self._lose_jobs(name, now_s)

    def _lose_jobs(self, name: str, now_s: float) -> None:
        for job in self.jobs.values():
            if name in job.placed and job.state in {JobState.RUNNING, JobState.SUSPENDED}:
                job.lost = True
                self.end(job, now_s)

    def _give(self, job: SimJob, placed: dict[str, NodeResources], now_s: float) -> None:
        job.placed, job.state = placed, JobState.STARTS
        for name, share in placed.items():
            node = self.nodes[name]
            node.used[job.job_id] = share
            if node.power is PowerState.OFF:
                node.power, node.power_s = PowerState.POWERING_ON, int(now_s)
