"""The simulated scheduler's jobs and nodes, and their changes over time."""

from collections.abc import Callable
from dataclasses import dataclass, field

from offpeak.model.constants import DAY_S
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from plugin.scheduler.job import JobState


@dataclass
class SimJob:
    """A job of the simulated scheduler. Times are Unix seconds; `run_s` is how long the job really runs.

    `apart`: each chunk gets a node of its own. `holds` are the letters of its holds: u by its owner, o by an operator,
    s by the system. The job starts at `begin_s` at the earliest, after the end of the jobs in `after`. `placed` are its
    nodes, with the processors that it has there. `wants` are the requested resources by name, `tasks` the fields of
    Torque's task requests, `attributes` all other attributes of the submission.
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
    priority: int = 0
    offset: float = 0.0
    rank: int = 0
    begin_s: int = 0
    holds: set[str] = field(default_factory=set)
    after: tuple[int, ...] = ()
    state: JobState = JobState.PENDING
    placed: dict[str, int] = field(default_factory=dict)
    start_s: float | None = None
    end_s: float | None = None
    lost: bool = False
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
    job. `shown_up`: the daemon does not answer, but the server still shows the node as up. `dead`: the node has lost
    its power and the server has not noticed; a job that starts there is lost. `power` is the power state in the eyes of
    the scheduler. `note` and `mark` are texts of admins and of offpeak. `power_order` is the last power order to the
    daemon, "" for none. A node with a `queue` runs only the jobs of that queue.
    """

    name: str
    cpus: int
    memory_mib: int = 32_768
    features: tuple[str, ...] = ()
    queue: str = ""
    alive: bool = True
    shown_up: bool = False
    dead: bool = False
    changed_s: int = 0
    shut: set[str] = field(default_factory=set)
    power: PowerState = PowerState.ON
    power_s: int = 0
    reason_s: int = 0
    note: str = ""
    mark: str = ""
    power_order: str = ""
    used: dict[str, int] = field(default_factory=dict)
    last_used_s: int = 0

    @property
    def cpus_used(self) -> int:
        """How many processors jobs have."""
        return sum(self.used.values())


SLEEP = "sleep"
"""Why a node is shut until its daemon registers again."""
ON_NODES = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED})

Value = Callable[[SimJob], float]
"""What jobs are sorted by, larger first; of equal ones the first in the queue."""


def value_of(job: SimJob) -> float:
    """Return a job's priority including its offset."""
    return job.priority + job.offset


def begin_of(job: SimJob) -> int:
    """Return before when a job does not start [Unix s]."""
    return job.begin_s


@dataclass
class SimulatedCluster:
    """`jobs` by number and index, ended ones too. `wakes`: a job may be given sleeping nodes, and waits for them.

    `scheduling`: whether anything is started. `value` is what jobs are sorted by, `begin` before when none starts.
    """

    nodes: dict[str, SimNode]
    queues: tuple[str, ...] = ("batch",)
    wakes: bool = False
    value: Value = value_of
    begin: Callable[[SimJob], int] = begin_of
    scheduling: bool = True
    jobs: dict[tuple[int, int | None], SimJob] = field(default_factory=dict)
    started: list[SimJob] = field(default_factory=list)
    last_number: int = 0
    last_rank: int = 0

    def submit(self, job: SimJob) -> SimJob:
        """Take a job in, at the end of the queue; one without a number gets the next."""
        if not job.number:
            self.last_number += 1
            job.number = self.last_number
        self.last_rank += 1
        job.rank = self.last_rank
        self.jobs[job.number, job.index] = job
        return job

    def step(self, now_s: float) -> None:
        """Let jobs end that are over, and those start that can."""
        for job in self.jobs.values():
            if (
                job.state in ON_NODES
                and job.start_s is not None
                and job.start_s + min(job.run_s, job.longest_s) <= now_s
            ):
                self.end(job, job.start_s + min(job.run_s, job.longest_s))
        for job in self.pending(now_s) if self.scheduling else ():
            placed = self.place(job)
            if placed:
                self._give(job, placed, now_s)
        for job in self.jobs.values():
            if job.state is JobState.STARTS:
                self._begin_if_up(job, now_s)

    def pending(self, now_s: float) -> list[SimJob]:
        """Return the jobs that could start now, the first to start first."""
        found = [job for job in self.jobs.values() if job.state is JobState.PENDING]
        found = [job for job in found if not job.holds and self.begin(job) <= now_s and not self.hangs(job)]
        return sorted(found, key=lambda job: (-self.value(job), job.rank))

    def place(self, job: SimJob) -> dict[str, int]:
        """Return the processors that the job could have by node, {} if it cannot start; nodes that are up go first."""
        left = {node.name: node.cpus - node.cpus_used for node in self.nodes.values() if self.is_open(node)}
        names = sorted(left, key=lambda name: self.nodes[name].power is not PowerState.ON)
        placed: dict[str, int] = {}
        for chunk in job.chunks:
            for _ in range(chunk.copies):
                apart = job.apart or job.whole_nodes
                node = next((name for name in names if self._fits(name, left[name], chunk, job, placed, apart)), None)
                if node is None:
                    return {}
                cpus = self.nodes[node].cpus if job.whole_nodes else chunk.cores
                left[node] -= cpus
                placed[node] = placed.get(node, 0) + cpus
        return placed

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
        job.state, job.end_s = JobState.ENDED, at_s

    def hangs(self, job: SimJob) -> bool:
        """Whether it waits for others to end."""
        alive = {each.number for each in self.jobs.values() if each.state is not JobState.ENDED} if job.after else set()
        return any(number in alive for number in job.after)

    def comes_up(self, name: str, now_s: float) -> None:
        """A node's daemon registers."""
        node = self.nodes[name]
        node.alive, node.changed_s, node.power = True, int(now_s), PowerState.ON
        node.shown_up = node.dead = False
        node.shut.discard(SLEEP)

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

    def _fits(self, name: str, left: int, chunk: Chunk, job: SimJob, placed: dict[str, int], apart: bool) -> bool:
        node = self.nodes[name]
        if (apart and name in placed) or (chunk.host and chunk.host != name) or not self._serves(node, job):
            return False
        return left >= (node.cpus if job.whole_nodes else chunk.cores) and chunk.accepts(node.features)

    def _serves(self, node: SimNode, job: SimJob) -> bool:
        """Whether the node runs jobs of that queue: one that has nodes of its own has no others."""
        return node.queue == (job.queue if any(each.queue == job.queue for each in self.nodes.values()) else "")

    def _give(self, job: SimJob, placed: dict[str, int], now_s: float) -> None:
        job.placed, job.state = placed, JobState.STARTS
        for name, cpus in placed.items():
            node = self.nodes[name]
            node.used[job.job_id] = cpus
            if node.power is PowerState.OFF:
                node.power, node.power_s = PowerState.POWERING_ON, int(now_s)

    def _begin_if_up(self, job: SimJob, now_s: float) -> None:
        if all(self.nodes[name].power is PowerState.ON for name in job.placed):
            job.state, job.start_s = JobState.RUNNING, now_s
            self.started.append(job)
            for name in job.placed:
                if self.nodes[name].dead:
                    self._lose_jobs(name, now_s)
