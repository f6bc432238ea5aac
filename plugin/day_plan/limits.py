"""Limits in the day plan: what jobs take of the licences, and of what their QOS allow at a time.

What running jobs take is taken until their expected end. A limit per user is one limit for each user. Limits that
cannot bind, because all jobs together stay below them, are left out of the problem.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.limits import Limit
from offpeak.model.request import Chunk, Request
from plugin.day_plan.inputs import PlanInputs, expected_end_s
from plugin.planner.problem import NO_DEMAND, UNLIMITED, Demands, LimitUse, Plan, PlanLimits, Rates, Work
from plugin.scheduler.job import HOLDING, Job


class UserLimit(NamedTuple):
    """A limit, and the user whose jobs count; "" if the limit is for all jobs together."""

    limit: Limit
    user: str

    @property
    def label(self) -> str:
        """What is counted, for messages."""
        return self.limit.label(self.user)


Amounts = Mapping[UserLimit, int]
"""What a job takes of each limit."""


class TakenLimit(NamedTuple):
    """What a job takes of a limit between two times [s from now]."""

    limit: UserLimit
    amount: int
    from_s: int
    until_s: int


@dataclass(frozen=True, eq=False)
class Supply:
    """What earlier pools leave to a pool: rates with lowered caps, and the limits that jobs outside the pool take."""

    rates: Rates
    taken: tuple[TakenLimit, ...]


def limit_amounts(job: Job, cluster: Cluster) -> Amounts:
    """Return what the job, or an array's task, takes of each limit; of an unclear request some are unknown."""
    if not cluster.licences and not cluster.qos:
        return {}
    found: Counter[UserLimit] = Counter()
    for limit, amount in cluster.limits_of(job.request or _known_request(job)):
        found[UserLimit(limit, job.user if limit.per_user else "")] += amount
    return found


def _known_request(job: Job) -> Request:
    nodes = max(job.nodes, 1)
    return Request(job.partitions, (Chunk(nodes, -(-job.cpus // nodes)),), whole_nodes=job.whole_nodes, qos=job.qos)


NEVER_ADMITTED = "a limit never admits it: "


def never_admitted_reason(job: Job, cluster: Cluster) -> str:
    """Return why a limit never admits the job, "" if none keeps it out."""
    refusals = (each.limit.refusal(amount) for each, amount in limit_amounts(job, cluster).items())
    return next((f"{NEVER_ADMITTED}{refusal}" for refusal in refusals if refusal), "")


def most_tasks(amounts: Amounts, tasks: int) -> int:
    """Return how many of the tasks the limits admit at a time if no other job runs."""
    return min((each.limit.most // amount for each, amount in amounts.items()), default=tasks)


def taken_by_running(inputs: PlanInputs) -> tuple[TakenLimit, ...]:
    """Return what the jobs that have nodes take of limits."""
    facts = inputs.queue
    return tuple(
        TakenLimit(limit, amount, 0, expected_end_s(job, inputs) - facts.now_s)
        for job in facts.jobs
        if job.state in HOLDING
        for limit, amount in limit_amounts(job, facts.cluster).items()
    )


def taken_by_planned(amounts: Iterable[Amounts], work: Work, plan: Plan) -> tuple[TakenLimit, ...]:
    """Return what the jobs of a plan take of limits; `amounts` are those of each job of the work."""
    rows = zip(amounts, plan.placed.tolist(), plan.start_s.tolist(), work.duration_s.tolist(), strict=True)
    return tuple(
        TakenLimit(limit, amount, start_s, start_s + run_s)
        for of_job, is_placed, start_s, run_s in rows
        if is_placed
        for limit, amount in of_job.items()
    )


def build_limits(amounts: Sequence[Amounts], taken: Iterable[TakenLimit]) -> tuple[PlanLimits, Int64]:
    """Return the limits that may bind, and the demand of each job; `amounts` are those of each job."""
    total: Counter[UserLimit] = Counter()
    for of_job in amounts:
        total.update(of_job)
    others = [each for each in taken if each.limit in total]
    for each in others:
        total[each.limit] += each.amount
    number = {limit: at for at, limit in enumerate(limit for limit in total if total[limit] > limit.limit.most)}
    if not number:
        return UNLIMITED, np.full(len(amounts), NO_DEMAND)
    demands: dict[tuple[tuple[int, int], ...], int] = {(): NO_DEMAND}
    rows = [tuple((number[limit], of_job[limit]) for limit in of_job if limit in number) for of_job in amounts]
    demand = np.array([demands.setdefault(row, len(demands)) for row in rows], np.int64)
    limit, amount = np.array([pair for row in demands for pair in row], np.int64).reshape(-1, 2).T.copy()
    first = np.cumsum([0, *map(len, demands)])
    uses = [(number[each.limit], each.from_s, each.until_s, each.amount) for each in others if each.limit in number]
    return PlanLimits(
        names=tuple(each.label for each in number),
        most=np.array([each.limit.most for each in number], np.int64),
        demands=Demands(first, limit, amount),
        taken=LimitUse(*np.array(uses, np.int64).reshape(-1, 4).T.copy()),
    ), demand
