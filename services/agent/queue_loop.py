"""The queue loop: orders pending jobs and holds back consenting ones, as far as the mode of each partition allows.

The first part collects the facts for the decision from scheduler, prices and accounts. The plan is then split by the
partitions of the jobs, because each partition may have a mode of its own.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

from offpeak.door.effect import US, Mode
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobMark
from plugin.queue_hook.facts import QueueFacts, QueueRules, ResourcePool, resource_pool
from plugin.queue_hook.queue_plan import QueuePlan, plan_queue
from plugin.queue_hook.reorder import MOVES
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import Ranking, SchedulerView
from power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from predictors.price_curve import PriceCurve
from services.accounts.job_draws import JobDraw
from services.agent.loop import DecisionFilter, ProblemLog
from services.agent.site_context import PartitionModes, SiteContext


def queue_rules(parts: SiteContext) -> QueueRules:
    """Return the site's rules."""
    scheduling, agent = parts.settings.scheduling, parts.settings.agent
    return QueueRules(agent.queue, scheduling.window, scheduling.max_postponement_s, agent.longest_delay_s, parts.zone)


def queue_facts(
    view: SchedulerView,
    ranking: Ranking,
    curve: PriceCurve | None,
    *,
    draws: Mapping[str, JobDraw],
    run_s: Mapping[str, int],
    marks: tuple[JobMark, ...],
    told: Mapping[str, str],
) -> QueueFacts:
    """Return what is known now; without a curve no price is."""
    facts = QueueFacts(
        view.at_s,
        view.jobs,
        ranking,
        node_power_w={job: draw.node_w for job, draw in draws.items()},
        expected_run_s=run_s,
        expected_wait_s={},
        free_nodes=free_nodes(view.jobs, view.nodes),
        marks=marks,
        told=told,
    )
    if curve is None:
        return facts
    return replace(
        facts,
        peak=curve.peak_at(view.at_s),
        peak_until_s=curve.peak_until_s(view.at_s),
        prices=curve.series,
        basis=curve.basis,
    )


def free_nodes(jobs: Iterable[Job], nodes: Iterable[Node]) -> dict[ResourcePool, int]:
    """Return how many nodes each competition of pending jobs could be given now; sleeping ones are woken for it."""
    free = Counter(node.partitions for node in nodes if is_free(node))
    lines = {resource_pool(job) for job in jobs if job.state is JobState.PENDING}
    return {
        line: sum(count for partitions, count in free.items() if not set(partitions).isdisjoint(line[0]))
        for line in lines
    }


def is_free(node: Node) -> bool:
    """Whether the scheduler could give the node to a job."""
    return node.use is NodeUse.FREE and not (node.closed or node.failed or node.reserved)


@dataclass(frozen=True)
class QueueGroup:
    """What is to be written of jobs in these partitions, by job as in QueuePlan.

    `moved` are the jobs that change places by that: of equal priorities fewer have to be written.
    """

    partitions: tuple[str, ...]
    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The partitions in one word."""
        return ",".join(self.partitions)


def make_advice(group: QueueGroup, decided: Mapping[str, DecisionRecord], told: Mapping[str, str]) -> dict[str, str]:
    """Return what owners see in a partition where nothing is done: what would be, and what they are told besides."""
    would = {
        job: decided[f"job {job}"] for job in {*group.rank, *group.begin_s, *group.moved} if f"job {job}" in decided
    }
    texts = {job: f"would be {each.decided}: {each.reason}" for job, each in would.items()}
    besides = {job: group.tell.get(job, told.get(job, "")) for job in {*texts, *group.tell}}
    return {job: "; ".join(each for each in (texts.get(job), besides[job]) if each) for job in besides}


def group_plan(
    plan: QueuePlan, jobs: Mapping[str, Job], kind_of: Callable[[tuple[str, ...]], Hashable] | None = None
) -> tuple[QueueGroup, ...]:
    """Return the plan's groups, sorted by their names: jobs whose partitions are of one kind, or the same ones."""
    members: dict[Hashable, list[str]] = defaultdict(list)
    moved = dict.fromkeys(each.subject.removeprefix("job ") for each in plan.decisions if each.decided in MOVES)
    for job in {**plan.rank, **plan.begin_s, **plan.tell, **moved}:
        partitions = jobs[job].partitions
        members[kind_of(partitions) if kind_of else partitions].append(job)
    return tuple(
        sorted((_make_group(each, plan, jobs, moved) for each in members.values()), key=attrgetter("partitions"))
    )


def _make_group(members: list[str], plan: QueuePlan, jobs: Mapping[str, Job], moved: Container[str]) -> QueueGroup:
    return QueueGroup(
        tuple(sorted({partition for job in members for partition in jobs[job].partitions})),
        {job: plan.rank[job] for job in members if job in plan.rank},
        {job: plan.begin_s[job] for job in members if job in plan.begin_s},
        {job: plan.tell[job] for job in members if job in plan.tell},
        frozenset(job for job in members if job in moved),
    )


class QueueLoop:
    """`changed` knows what was decided last of each job, `told` what its owner was told last. `by`: who orders it."""

    def __init__(self, ledger: Ledger, problem_log: ProblemLog, *, by: str = US) -> None:
        self._ledger, self._problem_log, self._by = ledger, problem_log, by
        self._marks: tuple[JobMark, ...] | None = None
        self._asked: dict[Mode, QueueGroup] = {}
        self.told: dict[str, str] = {}
        self.changed = DecisionFilter()

    async def marks(self) -> tuple[JobMark, ...]:
        """Return what we have changed of jobs; CannotWrite or BadLedger where nobody can tell."""
        if self._marks is None:
            self._marks = await asyncio.to_thread(self._ledger.marks)
        return self._marks

    async def round(
        self, facts: QueueFacts, rules: QueueRules, orders: SchedulerOrders, modes: PartitionModes
    ) -> QueuePlan:
        """Return the plan, which is carried out as far as the modes go; CannotWrite, and no job is changed."""
        plan = await asyncio.to_thread(plan_queue, facts, rules)
        jobs = {job.job_id: job for job in facts.jobs}
        self._ledger.write_decisions(self.changed.of(plan.decisions, {f"job {job}" for job in jobs}))
        await self._remember(list(plan.seen))
        # One order for all partitions of a mode: a large site has dozens of them, and each order takes its time.
        for group in group_plan(plan, jobs, modes.of):
            await self._carry_out(group, plan, orders, modes.of(group.partitions))
        if plan.forget:
            await asyncio.to_thread(self._ledger.forget_marks, plan.forget)
            self._marks = None
        return plan

    async def _carry_out(self, group: QueueGroup, plan: QueuePlan, orders: SchedulerOrders, mode: Mode) -> None:
        if mode is not Mode.ACTIVE and self._asked.get(mode) == group:
            # The record of what would have been done is not written anew each cycle.
            return
        self._asked[mode] = group
        if mode is Mode.ACTIVE:
            await self._remember(
                [mark for mark in plan.remember if mark.job in group.rank or mark.job in group.begin_s]
            )
        if group.rank:
            why = f"{len(group.rank)} jobs in another order"
            self._hear(await orders.rank(group.name, group.rank, why=why, by=self._by), mode)
        if group.begin_s:
            why = f"{len(group.begin_s)} jobs begin at another time"
            self._hear(await orders.defer(group.name, group.begin_s, why=why, by=self._by), mode)
        texts = make_advice(group, self.changed.latest, self.told) if mode is Mode.ADVISE else group.tell
        if texts:
            answer = await orders.notify(group.name, texts, why=f"{len(texts)} owners are told", by=self._by)
            self._hear(answer, mode)
            self.told |= _delivered_texts(group.tell, answer)

    async def _remember(self, marks: list[JobMark]) -> None:
        if marks:
            await asyncio.to_thread(self._ledger.remember_marks, marks)
            self._marks = None

    def _hear(self, answer: SchedulerOrderResult, mode: Mode) -> None:
        """Say why jobs were not changed: a scheduler that has begun to refuse them is worth a line."""
        whys = dict.fromkeys(answer.failed.values())
        said = f"{len(answer.failed)} jobs were not changed: {'; '.join(whys)}" if whys else None
        self._problem_log.report(f"queue in mode {mode}", said)


def _delivered_texts(tell: Mapping[str, str], answer: SchedulerOrderResult) -> dict[str, str]:
    return {job: text for job, text in tell.items() if answer.done and job not in answer.failed}
