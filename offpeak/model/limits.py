"""Limits on what may run at a time: licences and QOS. A job waits while one of its limits is used up.

A QOS may also let its jobs stop those of others. Jobs wait in order of submission, of recorded priorities, or of
Slurm's multifactor priority.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from offpeak.model.constants import DAY_S
from offpeak.model.request import Request

Resource = Literal["jobs", "nodes", "cores", "gpus", "licences"]


class Allowance(NamedTuple):
    """The most jobs that may run at a time, and the most nodes, cores and GPUs that they may have; None for any."""

    jobs: int | None = None
    nodes: int | None = None
    cores: int | None = None
    gpus: int | None = None


ANY_AMOUNT = Allowance()


class PreemptMode(StrEnum):
    """What happens to a job when another job needs its nodes.

    Nothing, or it is stopped and waits again or is lost, or it waits in the memory of its nodes.
    """

    OFF = "off"
    REQUEUE = "requeue"
    CANCEL = "cancel"
    SUSPEND = "suspend"


class PreemptionRules(NamedTuple):
    """Which of the jobs that a job may stop it does stop.

    Jobs that have run for less than `exempt_s` go on. By default jobs of the lowest tier or QOS priority are stopped
    first, then those with the fewest nodes, then the first submitted; `youngest_first`: the last started.
    """

    exempt_s: int = 0
    youngest_first: bool = False


DEFAULT_PREEMPTION = PreemptionRules()


class Qos(NamedTuple):
    """A quality of service. `group` limits all its jobs together, `per_user` those of each user.

    Its jobs may stop those of the QOS in `preempts`; `preempt_mode` says what happens to its own jobs then, and
    `exempt_s` how long they run before, None for what holds for all jobs.
    """

    name: str
    group: Allowance = ANY_AMOUNT
    per_user: Allowance = ANY_AMOUNT
    priority: int = 0
    preempts: frozenset[str] = frozenset()
    preempt_mode: PreemptMode = PreemptMode.REQUEUE
    exempt_s: int | None = None


@dataclass(frozen=True)
class SiteLimits:
    """The licences of all jobs together, and the QOS, by name, if known; `preemption` says which jobs are stopped.

    `priority` is the order of waiting jobs, None if it is not known. `qos_problem` is why it is not known which QOS
    preempt, "" if it is.
    """

    licences: Mapping[str, int] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    preemption: PreemptionRules = DEFAULT_PREEMPTION
    priority: "SitePriority | None" = None
    qos_problem: str = ""


class Limit(NamedTuple):
    """At most `most` of the resource at a time, for the jobs of a QOS, or of a licence where the resource is that."""

    name: str
    resource: Resource
    most: int
    per_user: bool = False

    def label(self, user: str = "") -> str:
        """Return what is counted, for messages; `user` is whose jobs count where the limit is per user."""
        if self.resource == "licences":
            return f"licence {self.name}"
        return f"{self.resource} of QOS {self.name}" + (f" for {user}" if self.per_user and user else "")

    def refusal(self, amount: int) -> str:
        """Return why a job that takes that amount can never run, "" if it can."""
        if amount <= self.most:
            return ""
        if self.resource == "licences":
            return f"the cluster has {self.most:,} of licence {self.name}, not {amount:,}"
        owner = "a user" if self.per_user else "all jobs"
        return f"QOS {self.name} allows {owner} {self.most:,} {self.resource} at a time, not {amount:,}"


def qos_limits(request: Request, cores: int, qos: tuple[Qos, ...]) -> tuple[tuple[Limit, int], ...]:
    """Return the limits of the QOS that a job counts against, and how much it takes of each; it gets that many cores.

    A QOS that precedes another replaces its limits: Slurm lets the QOS of a partition precede that of the job.
    """
    amounts: dict[Resource, int] = {"jobs": 1, "nodes": request.least_nodes, "cores": cores, "gpus": request.gpus}
    found = []
    for per_user in (False, True):
        for resource, amount in amounts.items():
            given = (
                Limit(each.name, resource, most, per_user)
                for each in qos
                if (most := getattr(each.per_user if per_user else each.group, resource)) is not None
            )
            if amount and (first := next(given, None)):
                found.append((first, amount))
    return tuple(found)


class PriorityOrder(StrEnum):
    """What the jobs of one priority tier are ordered by; `RECORDED` is the priority that the log has of each job."""

    SUBMISSION = "submission"
    RECORDED = "recorded"
    MULTIFACTOR = "multifactor"


class PriorityWeights(NamedTuple):
    """The settings of priority/multifactor, with Slurm's defaults; times in seconds.

    `is_fair_tree` is False with PriorityFlags=NO_FAIR_TREE, `small_relative_to_time` is the flag of that name.
    `half_life_s` 0 lets no usage decay.
    """

    age: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    max_age_s: int = 7 * DAY_S
    favor_small: bool = False
    small_relative_to_time: bool = False
    half_life_s: int = 7 * DAY_S
    calc_period_s: int = 300
    is_fair_tree: bool = True
    dampening: float = 1.0


class ShareAccount(NamedTuple):
    """An account with its shares and those of its users; `parent` is "" below the root.

    Shares of None are Slurm's fairshare=parent: what stands below such an account counts below its parent, and all such
    users of an account count as one.
    """

    name: str
    parent: str = ""
    shares: int | None = 1
    users: tuple[tuple[str, int | None], ...] = ()


class SitePriority(NamedTuple):
    """A site's order, with weights and accounts of `MULTIFACTOR`, in any order; `not_modelled` moves jobs there too."""

    order: PriorityOrder
    weights: PriorityWeights = PriorityWeights()
    accounts: tuple[ShareAccount, ...] = ()
    not_modelled: tuple[str, ...] = ()
