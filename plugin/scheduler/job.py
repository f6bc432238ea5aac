"""A job as a scheduler reports it, in terms that hold for all schedulers."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.request import Request
from offpeak.model.units import LONGEST_S

MOST_NUMBER = 1 << 53
"""A larger number of a scheduler counts as this."""
MOST_COUNT = 1 << 31
"""No cluster has more cores, nodes or GPUs; a larger request fits it no better."""
MOST_MEMORY_MIB = 1 << 40
LATEST_S = 32_503_680_000
"""The begin of the year 3000: a later time of a job counts as this."""

NO_NODE_HELPS = (
    *("limit", "assoc", "qos", "license", "fairshare", "dependency", "hold", "held", "not started", "threshold"),
    *("queue resource", "server resource", "dedicated time", "primetime", "mission"),
)
"""Words of pending reasons of Slurm, Torque and OpenPBS that free nodes do not resolve."""
CLOSED_TO_JOB = ("Partition", "Account", "Reservation")
"""Prefixes of such reasons of Slurm; other reasons mention partitions too."""

TASK = re.compile(r"(?P<slurm>\d+)_.+|(?P<pbs>\d+\[).*(?P<server>\].*)")


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


def bounded_limit_s(limit_s: int | None) -> int | None:
    """Return a time limit; one that is longer than 100 years is none."""
    return limit_s if limit_s is not None and limit_s <= LONGEST_S else None


class Job(NamedTuple):
    """One job; times are Unix seconds, None if there is none.

    `job_id` is the argument of the scheduler's commands. `native_state` and `reason` are in the scheduler's own terms.
    `priority` is the scheduler's sort key, larger first; `offset` is the part that was added from outside, with the
    same sign (Slurm: the negative nice value). `nodes` and `cpus` are requested or allocated. `begin_s` is the
    earliest start; `start_s` the actual or planned start. `hosts` is a node set in the scheduler's syntax: the
    allocated or planned nodes. `request` is None if the scheduler's terms are not understood, for the reason
    `request_problem`. `priority_is_set`: an admin set its priority, which the scheduler no longer computes.
    `was_passed_over`: it did not start although nodes were up for it long enough, so it waits for something else.
    `fair_share` is the part of its priority that comes from its account's shares. The scheduler starts no job before
    another of a higher `priority_class`. It must end by `deadline_s`.
    `whole_nodes`: no other job shares its nodes. `plain` is false for heterogeneous jobs, for jobs with dependencies,
    and for single tasks of an array.

    The waiting tasks of an array are one record, whose `job_id` is `array_id`, with their number in `tasks`; at most
    `task_limit` tasks of the array run at once, 0 for any number. A task that runs, or was changed separately, has its
    own record. `array_id` is "" for other jobs.
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
    request: Request | None
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
    array_id: str = ""
    tasks: int = 1
    task_limit: int = 0
    request_problem: str = ""
    priority_is_set: bool = False
    was_passed_over: bool = False
    priority_class: str = ""
    fair_share: int = 0
    deadline_s: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether it is the record of the waiting tasks of an array."""
        return bool(self.array_id) and self.array_id == self.job_id

    @property
    def holds_nodes(self) -> bool:
        """Whether it has nodes, or may have some."""
        return self.state in HOLDING

    def is_waiting(self, now_s: int) -> bool:
        """Whether it lacks only nodes to start."""
        if self.state is not JobState.PENDING or self.reservation or self.reason == "BeginTime":
            return False
        return self.lacks_only_nodes and (self.begin_s is None or self.begin_s <= now_s)

    def is_deferred(self, now_s: int) -> bool:
        """Whether it may start later only, at a time that is known; reservations wake their nodes themselves."""
        is_pending = self.state is JobState.PENDING and not self.reservation
        return is_pending and self.begin_s is not None and self.begin_s > now_s

    def count_units(self, units_per_node: int) -> int:
        """Return the allocation units that it has or requests, at least one."""
        if units_per_node == 1:
            return max(self.nodes, 1)
        return max(self.nodes * units_per_node if self.whole_nodes else self.cpus, 1)

    @property
    def lacks_only_nodes(self) -> bool:
        """Whether free nodes would let the job start, by the scheduler's reason: no limit, dependency or hold."""
        return not self.was_passed_over and _free_nodes_help(self.reason)

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of the nodes in `hosts`. Raises BadInput if it is no node set."""
        return expand(self.hosts)

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """The names of the nodes in `hosts`, none if it is no node set."""
        try:
            return self.host_names if self.hosts else ()
        except BadInput:
            return ()

    @property
    def is_unclear(self) -> bool:
        """Whether its request is not understood: it may need any node of its partitions."""
        return self.request is None and bool(self.request_problem)

    @property
    def required_hosts(self) -> frozenset[str]:
        """The nodes that it requests by name."""
        if self.request is None:
            return frozenset()
        return self.request.hosts | {chunk.host for chunk in self.request.chunks if chunk.host}


@lru_cache(maxsize=1024)
def _free_nodes_help(reason: str) -> bool:
    # The names of nodes follow this word of Slurm, and may contain any other.
    cause = reason.partition("UnavailableNodes")[0].lower()
    return not (reason.startswith(CLOSED_TO_JOB) or any(other in cause for other in NO_NODE_HELPS))


def count_running_tasks(jobs: Iterable[Job]) -> Mapping[str, int]:
    """Return how many tasks of each array have nodes."""
    return Counter(job.array_id for job in jobs if job.array_id and job.state in HOLDING)


def count_startable_tasks(job: Job, running: Mapping[str, int]) -> int:
    """Return how many tasks of the job could start now; 1 for a job that is no array, 0 for a throttled one."""
    if not job.task_limit:
        return job.tasks
    return max(0, min(job.tasks, job.task_limit - running.get(job.array_id, 0)))


def array_of(task_id: str) -> str:
    """Return the array of a task, `7` of `7_3` or `7[].head` of `7[3].head`; "" for the id of another job."""
    match = TASK.fullmatch(task_id)
    return (match["slurm"] or match["pbs"] + match["server"]) if match else ""


def join_array_tasks(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs with one record for the waiting tasks of each array, as Slurm has it and PBS has not.

    Tasks that differ in their priority or their begin time stay single: somebody has changed some of them. Held tasks
    stay single too, but do not count as changed: Torque holds tasks beyond the limit of their array.
    """
    jobs = tuple(jobs)
    known = {job.job_id for job in jobs}
    tasks: dict[str, list[Job]] = {}
    for job in jobs:
        if job.array_id and job.array_id not in known and job.state in (JobState.PENDING, JobState.HELD):
            tasks.setdefault(job.array_id, []).append(job)
    joined = {array: record for array, of_array in tasks.items() if (record := _join_tasks(of_array)) is not None}
    if not joined:
        return jobs
    found: dict[str, Job] = {}
    for job in jobs:
        record = joined.get(job.array_id)
        if record is None or job.state not in (JobState.PENDING, JobState.HELD):
            found[job.job_id] = job
        elif job.state is JobState.HELD:
            found[job.job_id] = job._replace(array_id="")
        else:
            found[record.job_id] = record
    return tuple(found.values())


def _join_tasks(tasks: Sequence[Job]) -> Job | None:
    """Return one record for the pending tasks of an array, None if there is none, or if the tasks are not alike."""
    pending = [task for task in tasks if task.state is JobState.PENDING]
    ranks = {(task.priority, task.offset) for task in tasks}
    if not pending or len(ranks) > 1 or len({(task.begin_s, task.request, task.comment) for task in pending}) > 1:
        return None
    first = pending[0]
    return first._replace(job_id=first.array_id, tasks=len(pending), plain=True, start_s=None, hosts="")
