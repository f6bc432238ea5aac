"""Limits in the day plan: licences and QOS, of which jobs take a part, and caps on power.

What running jobs take of licences and QOS is taken until their expected end. A limit per user is one limit for each
user. Limits that cannot bind, because all jobs together stay below them, are left out of the problem.

A cap is on the draw of all nodes. The jobs that run and the idle nodes take their part of it first, and so does the
draw of measured nodes that jobs and idle nodes do not explain: nodes that boot or sleep, and jobs that draw more than
expected. A job that could run while a cap holds gets its planned start as begin time: without it the scheduler starts
a job as soon as nodes are free, whatever its power.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpeak.display import watts_text
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.facility import PowerCap
from offpeak.model.limits import Limit
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.day_plan.day_plan import DayPlan, Load, PlannedJob
from offpeak.plugin.day_plan.inputs import PlanInputs, expected_end_s, is_usable, power_over_time, subtract_power
from offpeak.plugin.planner.problem import NO_DEMAND, UNLIMITED, Demands, LimitUse, Plan, PlanLimits, Rates, Work
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.text import counted

NEVER_ADMITTED = "a limit never admits it: "

NAMED = 5


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


def idle_w(inputs: PlanInputs) -> float:
    """Return the power of the nodes that are up without a job, counted for the whole plan to be on the safe side."""
    return inputs.room.idle_w * sum(map(_is_idle, inputs.nodes))


def unexplained_w(inputs: PlanInputs, loads: Sequence[Load]) -> float:
    """Return how much more the measured nodes draw than idle nodes and the `loads` of all jobs explain; at least 0."""
    explained: dict[str, float] = defaultdict(float)
    for node in inputs.nodes:
        explained[node.name] += inputs.room.idle_w if _is_idle(node) else 0.0
    for load in loads:
        for host in load.hosts:
            explained[host] += load.power_w / len(load.hosts)
    return max(0.0, sum(measured_w - explained[node] for node, measured_w in inputs.measured_w.items()))


def subtract_outside_load(rates: Rates, inputs: PlanInputs, loads: Sequence[Load], others_w: float) -> Rates:
    """Return the rates with caps lowered by the `loads` of jobs that no pool has, by idle nodes, and by `others_w`."""
    ends_s = np.array([*(load.until_s - inputs.queue.now_s for load in loads), rates.horizon_s], np.int64)
    power_w = np.array([*(load.power_w for load in loads), idle_w(inputs) + others_w])
    return subtract_power(rates, *power_over_time(np.zeros(len(ends_s), np.int64), ends_s, power_w))


def _is_idle(node: Node) -> bool:
    return is_usable(node) and node.use is NodeUse.FREE and node.power is PowerState.ON


@dataclass(frozen=True)
class BindingCaps:
    """The `caps` that all jobs together could exceed; the others hold no job back."""

    inputs: PlanInputs
    caps: tuple[PowerCap, ...]

    @classmethod
    def of(cls, inputs: PlanInputs, others_w: float) -> "BindingCaps":
        """Return them; `others_w` is drawn besides jobs and idle nodes."""
        facts = inputs.queue
        jobs_w = sum(
            facts.node_power_w.get(job.job_id, 0.0) * max(job.nodes, 1) * job.tasks
            for job in facts.jobs
            if job.state in HOLDING or job.state is JobState.PENDING
        )
        most_w = jobs_w + idle_w(inputs) + others_w
        return cls(inputs, tuple(cap for cap in inputs.caps if cap.until_s > facts.now_s and cap.cap_w < most_w))

    @cached_property
    def submit_s(self) -> Mapping[str, float]:
        """When each job was submitted [Unix s]."""
        return {job.job_id: job.submit_s for job in self.inputs.queue.jobs}

    def bind(self, job: PlannedJob) -> PlannedJob:
        """Return the job with its planned start as its begin, if by starting sooner it could run while a cap holds.

        After the cap the job may start at any time. A job with the hint offpeak:now is not constrained.
        """
        now_s = self.inputs.queue.now_s
        over_s = (now_s if job.start_s is None else job.start_s) + job.run_s
        waited_s = now_s - self.submit_s.get(job.job_id, now_s)
        # The job could run under these if it started between now and its planned start.
        caps = [cap for cap in self.caps if cap.from_s < over_s and cap.holds(waited_s)]
        if not caps or job.opted_out or (job.start_s is not None and job.start_s <= now_s):
            return job
        cap = max(caps, key=lambda each: each.until_s)
        begin_s = cap.until_s if job.start_s is None else min(job.start_s, cap.until_s)
        until = self.inputs.rules.clock(cap.until_s, now_s)
        why = f"power is capped at {watts_text(cap.cap_w)} until {until}: {cap.reason}"
        return replace(job, begin_s=begin_s, waits_for_price=False, why=why)


def find_exceeded_caps(plan: DayPlan) -> Iterator[tuple[PowerCap, tuple[Load, ...]]]:
    """Yield the caps that running jobs exceed, with these jobs: running jobs are not stopped."""
    for cap in plan.caps:
        loads = tuple(load for load in plan.loads if load.until_s > max(cap.from_s, plan.at_s))
        if cap.until_s > plan.at_s and sum(load.power_w for load in loads) > cap.cap_w:
            yield cap, loads


def list_cap_remarks(inputs: PlanInputs, plan: DayPlan) -> Iterator[str]:
    """Yield a sentence for each cap that running jobs exceed, or that a waiting job exceeds by itself."""
    for cap, loads in find_exceeded_caps(plan):
        begin = inputs.rules.clock(max(cap.from_s, plan.at_s), plan.at_s)
        yield (
            f"the cap of {watts_text(cap.cap_w)} from {begin} ({cap.reason}) cannot hold at first: running jobs draw"
            f" {watts_text(sum(load.power_w for load in loads))}, and are not stopped: {_named(loads)}"
        )
    for cap in plan.caps:
        alone = [job for job in plan.jobs if job.power_w > cap.cap_w]
        if cap.until_s <= plan.at_s or not alone:
            continue
        until = inputs.rules.clock(cap.until_s, plan.at_s)
        yield (
            f"{counted(len(alone), 'job')} by itself above the cap of {watts_text(cap.cap_w)} ({cap.reason}), and"
            f" not to run before {until}: {_named(alone)}"
        )


def _named(jobs: Sequence[Load | PlannedJob]) -> str:
    """Return the jobs with the most power by number and power, and the number of the others."""
    first = sorted(jobs, key=lambda job: -job.power_w)[:NAMED]
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return ", ".join(f"{job.job_id} ({watts_text(job.power_w)})" for job in first) + more
