"""A job of the simulated scheduler."""

from dataclasses import dataclass, field

from plugin.pbs.resource_request import Chunk
from plugin.scheduler.job import JobState

DAY_S = 86_400


@dataclass
class SimJob:
    """Times are Unix seconds. `run_s` is how long it really runs; `apart`: each chunk gets a node of its own.

    `holds` are letters of who holds it: u its owner, o an operator, s the system. `begin_s`: not before. `after` are
    jobs that have to have ended. `placed` are its nodes, with the processors that it has there. `wants` are
    resources by name as they were asked for, `tasks` the fields of Torque's requests of tasks, `told` is what was told
    of the job besides.
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
    told: dict[str, str] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """Its number, with its place in an array."""
        return f"{self.number}" if self.index is None else f"{self.number}[{self.index}]"

    @property
    def cpus(self) -> int:
        """How many processors it asks for."""
        return sum(chunk.times * chunk.cpus for chunk in self.chunks)

    @property
    def nodes(self) -> int:
        """How many nodes it asks for, where each chunk has one of its own."""
        return sum(chunk.times for chunk in self.chunks)

    @property
    def longest_s(self) -> int:
        """How long it may run."""
        return self.limit_s or DAY_S
