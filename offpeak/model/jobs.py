"""Jobs as columns: every log format is read into them, and every policy works on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.request import Request


@dataclass(frozen=True)
class Jobs:
    """Jobs as columns of one length, sorted by submit time, file order within a second.

    `submit_s` counts from the trace's own zero. `size` is in the machine's allocation unit (nodes or processors).
    Unknown users, groups, queues and applications are -1. `logged_start_s` is the real start, -1 if unknown.
    `node_power_w` is the measured draw per allocated unit [W], NaN if nothing was measured.

    The other columns are None if the log has nothing of the kind. `logged_size` is how many units each job really had,
    if that is logged in addition to its request. `request` is the job's class in `Trace.requests`, -1 if it is unknown.
    `array` is the number of the array that the job is a task of, -1 for none. `partition` is set where queues and
    partitions are logged; in other logs the queue is the partition. `node` is the first node on which the job ran.
    `priority` is that of the scheduler when the job started, -1 if it is not known.
    """

    job_id: Int64
    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    size: Int64
    user: Int64
    group: Int64
    queue: Int64
    application: Int64
    logged_start_s: Int64
    node_power_w: Float64
    logged_size: Int64 | None = None
    request: Int64 | None = None
    array: Int64 | None = None
    partition: Int64 | None = None
    node: Int64 | None = None
    priority: Int64 | None = None

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | Int64) -> "Jobs":
        """Return the jobs that the mask or the indices select."""
        taken: dict[str, Any] = {name: None if each is None else each[which] for name, each in vars(self).items()}
        return Jobs(**taken)

    def with_size(self, size: Int64) -> "Jobs":
        """Return the same jobs with `size` units, requested and used."""
        return replace(self, size=size, logged_size=None)

    def as_logged(self) -> "Jobs":
        """Return the jobs with the units that they really had."""
        return self if self.logged_size is None else self.with_size(self.logged_size)


OPTIONAL_COLUMNS = tuple(each.name for each in fields(Jobs) if each.default is None)


@dataclass(frozen=True)
class RejectedJobs:
    """Jobs that can never run, for one reason."""

    reason: str
    job_ids: tuple[int, ...]


@dataclass(frozen=True)
class LogNames:
    """The names behind the numbers of a log: user 3 is `user[3]`. Empty if the log itself has only numbers.

    `job` holds the jobs that their scheduler calls something else than their number, such as {23: "12_4"}.
    """

    user: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    application: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    job: Mapping[int, str] = field(default_factory=dict)
    node: tuple[str, ...] = ()

    def job_text(self, job_id: int) -> str:
        """Return what the job's scheduler calls it."""
        return self.job.get(job_id, str(job_id))

    def user_text(self, user: int) -> str:
        """Return the user's name, or the number that the log has in its place."""
        return self.user[user] if 0 <= user < len(self.user) else str(user)

    def partitions(self, jobs: Jobs) -> tuple[Int64, tuple[str, ...]]:
        """Return each job's partition as an index of the names that follow, -1 for none; without names the numbers."""
        number, names = jobs.partition, self.partition
        if number is None:
            number, names = jobs.queue, self.queue
        if names:
            return number, names
        numbers = np.unique(number[number >= 0])
        return np.where(number < 0, -1, np.searchsorted(numbers, number)), tuple(map(str, numbers.tolist()))


NUMBERS_ONLY = LogNames()


@dataclass(frozen=True)
class Trace:
    """A job log: its jobs, the machine and the calendar from its header, and rejected jobs.

    `processors` and `nodes` are the header's MaxProcs and MaxNodes, `unix_start_s` the Unix time of the trace's second
    0, each None if the header is silent. `units_per_node` is how many units of `jobs.size` share a node, None if the
    log does not say what its unit is. `without_estimate` are the ids of jobs that requested no time: their `estimate_s`
    is the run time. `processors_per_node` is the number shown by the accounting, None if it shows none. `requests` are
    the classes of `jobs.request`. `named_nodes` is how many nodes the jobs ran on by name, 0 if it names none.
    `suspended` are the ids of jobs that did not run for all of the time between start and end.
    """

    name: str
    jobs: Jobs
    processors: int | None
    nodes: int | None
    unix_start_s: int | None
    time_zone: str | None
    rejected: tuple[RejectedJobs, ...] = ()
    skipped_lines: int = 0
    notes: tuple[str, ...] = ()
    names: LogNames = NUMBERS_ONLY
    units_per_node: int | None = None
    without_estimate: Int64 = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    processors_per_node: int | None = None
    requests: tuple[Request, ...] = ()
    named_nodes: int = 0
    suspended: Int64 = field(default_factory=lambda: np.empty(0, np.int64), compare=False)


def make_jobs(submit_s: Int64, size: Int64, runtime_s: Int64, estimate_s: Int64) -> Jobs:
    """Return jobs, numbered from 1, of which only these columns are known."""
    unknown = np.full(len(size), -1)
    return Jobs(
        job_id=np.arange(1, len(size) + 1),
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=estimate_s,
        size=size,
        user=unknown,
        group=unknown,
        queue=unknown,
        application=unknown,
        logged_start_s=unknown,
        node_power_w=np.full(len(size), np.nan),
    )
