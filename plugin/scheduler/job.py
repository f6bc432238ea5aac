"""A job as a scheduler tells of it, in words that hold for all schedulers."""

from enum import StrEnum
from typing import NamedTuple

from offpeak.machines.node_sets import expand


class JobState(StrEnum):
    """HELD: somebody keeps it back. STARTS: it has nodes that still come up. OTHER is not understood: hands off."""

    PENDING = "pending"
    HELD = "held"
    STARTS = "starts"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDS = "ends"
    ENDED = "ended"
    OTHER = "other"


HOLDING = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS, JobState.OTHER})
"""States in which a job has, or may have, nodes."""


class Job(NamedTuple):
    """One job; times are Unix seconds, None where there is none.

    `job_id` is what the scheduler's commands take. `native_state` and `reason` are the scheduler's own words.
    `priority` is what the scheduler sorts by, larger first; `offset` what was added to it from outside, in the same
    direction (Slurm: the nice value, turned round). `nodes` and `cpus` are what it asks for, or has. `begin_s` is when
    it may start at the earliest; `start_s` when it did, or is planned to. `hosts` is a node set in the scheduler's
    spelling: the nodes that it has, or is planned to have. `needs` is what of its request decides which nodes it can
    use, in one text that is equal for jobs that compete for the same ones. `whole_nodes`: nobody else gets the rest.
    `plain` is false for what is more than one job or hangs on others: arrays, heterogeneous jobs, dependencies.
    """

    job_id: str
    state: JobState
    native_state: str
    reason: str
    user: str
    account: str
    name: str
    comment: str
    partitions: tuple[str, ...]
    needs: str
    reservation: str
    qos: str
    priority: int
    offset: int
    nodes: int
    cpus: int
    whole_nodes: bool
    limit_s: int | None
    submit_s: int
    begin_s: int | None
    start_s: int | None
    end_s: int | None
    hosts: str
    plain: bool

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of the nodes in `hosts`; BadInput if it is no node set."""
        return expand(self.hosts)
