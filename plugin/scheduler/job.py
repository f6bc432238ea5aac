"""A job as a scheduler reports it, in terms that hold for all schedulers."""

from enum import StrEnum
from typing import NamedTuple

from offpeak.machines.node_sets import expand


class JobState(StrEnum):
    """HELD: a user or an admin holds it. STARTS: its nodes still come up. OTHER: unknown, so the job is not touched."""

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

    `job_id` is the argument of the scheduler's commands. `native_state` and `reason` are in the scheduler's own terms.
    `priority` is the scheduler's sort key, larger first; `offset` is the part that was added from outside, with the
    same sign (Slurm: the negative nice value). `nodes` and `cpus` are requested or allocated. `begin_s` is the
    earliest start; `start_s` the actual or planned start. `hosts` is a node set in the scheduler's syntax: the
    allocated or planned nodes. `needs` is the part of the request that decides which nodes the job can use, as one text
    that is equal for jobs that compete for the same nodes. `whole_nodes`: no other job shares its nodes. `plain` is
    false for array tasks, heterogeneous jobs and jobs with dependencies.
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
