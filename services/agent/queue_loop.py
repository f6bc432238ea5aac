"""The queue loop: orders pending jobs and delays those whose owners agree, as far as the mode of each partition allows.

`QueueLoop` is the loop of the agent. `queue_facts` collects the facts for the decision, and `QueuePlanner` adds the
plan of the day to them if the policy is "plan", and under any policy the begin times that caps on power impose.
`QueueController` decides and carries the decision out. It splits the decision by the partitions of the jobs, because
each partition may have a mode of its own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from operator import attrgetter
from typing import Self

import numpy as np

from offpeak.display import watts_text
from offpeak.door.effect import AGENT, Mode
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import Facility, facility_named
from offpeak.plugin.day_plan.day_plan import DayPlan, StartChange
from offpeak.plugin.day_plan.inputs import PlanFacility, PlanInputs
from offpeak.plugin.queue_hook.facts import PLAN, QueueFacts, QueueRules, WaitAllowance, format_clock
from offpeak.plugin.queue_hook.queue_plan import MOVES, QueuePlan, plan_queue
from offpeak.plugin.queue_hook.start_times import NOW
from offpeak.plugin.scheduler.cluster_view import cluster_of, free_nodes
from offpeak.plugin.scheduler.job import Job, JobState, join_array_tasks
from offpeak.plugin.window_policy import PolicyProcess
from offpeak.power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from offpeak.services.accounts.job_draws import JobDraw
from offpeak.services.agent.accounting_loops import JobAccounts
from offpeak.services.agent.cycles import CycleStarter
from offpeak.services.agent.demand_response import Surroundings
from offpeak.services.agent.loop import DecisionFilter, Loop, ProblemLog
from offpeak.services.agent.observer import (
    SAME_READING_PAUSES,
    ClusterObservation,
    Observer,
    find_undecided_jobs,
    without_jobs,
)
from offpeak.services.agent.site_context import PartitionModes, SiteContext, SiteOrders
from offpeak.services.agent.wait_forecast import WaitHistory
from offpeak.settings.agent import AgentSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.table import Settings
from offpeak.text import counted


@dataclass(frozen=True)
class QueueSection:
    """The rules of the queue, the modes of the partitions, the inputs of the planner, and the section of the agent."""

    rules: QueueRules
    modes: PartitionModes
    plan: PlanSettings
    idle_node_w: float
    agent: AgentSettings

    @classmethod
    def of(cls, site: SiteContext) -> Self:
        """Return the section of a site."""
        settings = site.settings
        rules = replace(queue_rules(settings, site.zone, site.own_policy), declared=site.flexibility)
        return cls(rules, site.modes, settings.plan, settings.power.idle_node_w, settings.agent)


def queue_rules(settings: Settings, zone: tzinfo, own_policy: PolicyProcess | None = None) -> QueueRules:
    """Return the rules of the site; `own_policy` orders the queue if its policy is one from outside."""
    scheduling, agent = settings.scheduling, settings.agent
    return QueueRules(
        agent.queue,
        scheduling.window,
        scheduling.max_postponement_s,
        scheduling.priority_band_percent,
        agent.longest_delay_s,
        zone,
        own_policy=own_policy.order if own_policy else None,
        declared=settings.flexibility.rules(zone),
    )


def queue_facts(
    observed: ClusterObservation,
    *,
    draws: Mapping[str, JobDraw],
    run_s: Mapping[str, int],
    marks: tuple[JobMark, ...] = (),
    comments: Mapping[str, str] | None = None,
    cycle_s: float = 0.0,
) -> QueueFacts:
    """Return the facts about the queue; `comments` are those that the owners of jobs have got from the agent.

    The power and the run time of an array are those of its tasks.
    """
    view, curve = observed.view, observed.prices
    cluster = cluster_of(view, observed.traits.partitions, limits=observed.traits.limits)
    arrays = {job.array_id: job.job_id for job in view.jobs if job.array_id and job.state is JobState.PENDING}
    draws = {array: draws[task] for array, task in arrays.items() if task in draws} | dict(draws)
    task_s = {array: run_s[task] for array, task in arrays.items() if task in run_s}
    facts = QueueFacts(
        view.at_s,
        join_array_tasks(view.jobs),
        observed.traits.ranking,
        node_power_w={job: draw.node_w for job, draw in draws.items()},
        full_node_w={job: draw.full_node_w for job, draw in draws.items()},
        expected_run_s={**task_s, **run_s},
        cluster=cluster,
        free_nodes=free_nodes(cluster, view.nodes),
        cycle_s=cycle_s,
        marks=marks,
        notices=comments or {},
    )
    if curve is None:
        return facts
    decisions = curve.decisions
    return replace(
        facts,
        peak=decisions.peak_at(view.at_s),
        peak_until_s=decisions.peak_until_s(view.at_s),
        prices=decisions.series,
        basis=decisions.basis,
    )


def add_wait_allowances(
    facts: QueueFacts, observed: ClusterObservation, waits: WaitHistory, section: QueueSection
) -> QueueFacts:
    """Return the facts with the wait allowances of the jobs whose owners allow a delay.

    A job with a deadline gets the wait that `deadline_wait_percent` of jobs do not exceed, any other one the expected
    wait. A simulation of `observed` that is due begins, and its result counts in a later cycle.
    """
    hints = {job.job_id: section.rules.hints(job) for job in facts.pending}
    delayable = [job for job in facts.pending if hints[job.job_id].allows_delay]
    if not delayable:
        return facts
    if waits.forecast.is_due(facts.now_s):
        waits.forecast.begin(observed.view, observed.traits, facts.expected_run_s)
    expected_s = waits.forecast.of_jobs(delayable, facts.now_s)
    percent = section.agent.deadline_wait_percent
    allowances = {
        job_id: WaitAllowance(wait_s)
        if hints[job_id].deadline_s is None
        else WaitAllowance(waits.quantile_s(wait_s, percent), percent)
        for job_id, wait_s in expected_s.items()
    }
    return replace(facts, wait_allowances=allowances)


Change = tuple[str, str]
"""The kind of a change and its job; each change is a request to the scheduler."""


@dataclass(frozen=True)
class QueueGroup:
    """The part of a QueuePlan that concerns jobs in these partitions.

    `moved` are the jobs that change places; among jobs of equal priority fewer ranks must be written.
    """

    partitions: tuple[str, ...]
    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The partitions, joined with commas."""
        return ",".join(self.partitions)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes, most urgent first: begin times, the ranks of the first jobs, and notices in this order."""
        ranked = sorted(self.rank, key=self.rank.__getitem__, reverse=True)
        kinds: tuple[tuple[str, Iterable[str]], ...] = ("begin_s", self.begin_s), ("rank", ranked), ("tell", self.tell)
        return tuple((kind, job) for kind, jobs in kinds for job in jobs)

    def only(self, changes: Container[Change]) -> "QueueGroup":
        """Return the group with these changes alone."""
        begin_s = {job: begin_s for job, begin_s in self.begin_s.items() if ("begin_s", job) in changes}
        rank = {job: rank for job, rank in self.rank.items() if ("rank", job) in changes}
        tell = {job: text for job, text in self.tell.items() if ("tell", job) in changes}
        return replace(self, begin_s=begin_s, rank=rank, tell=tell)


def make_advice(
    group: QueueGroup, decided: Mapping[str, DecisionRecord], comments: Mapping[str, str]
) -> dict[str, str]:
    """Return the comments of jobs in mode advise: what offpeak would change, and the rest of the job's comment."""
    would = {
        job: decided[f"job {job}"] for job in {*group.rank, *group.begin_s, *group.moved} if f"job {job}" in decided
    }
    texts = {job: f"would be {decision.decided}: {decision.reason}" for job, decision in would.items()}
    others = {job: group.tell.get(job, comments.get(job, "")) for job in {*texts, *group.tell}}
    return {job: "; ".join(text for text in (texts.get(job), others[job]) if text) for job in others}


def group_plan(
    plan: QueuePlan, jobs: Mapping[str, Job], kind_of: Callable[[tuple[str, ...]], Hashable] | None = None
) -> tuple[QueueGroup, ...]:
    """Return the groups of a plan, sorted by name: jobs whose partitions are of one kind, or the same partitions."""
    members: dict[Hashable, list[str]] = defaultdict(list)
    moved = dict.fromkeys(
        decision.subject.removeprefix("job ") for decision in plan.decisions if decision.decided in MOVES
    )
    for job in {**plan.rank, **plan.begin_s, **plan.tell, **moved}:
        partitions = jobs[job].partitions
        members[kind_of(partitions) if kind_of else partitions].append(job)
    groups = (
        QueueGroup(
            tuple(sorted({partition for job in group for partition in jobs[job].partitions})),
            {job: plan.rank[job] for job in group if job in plan.rank},
            {job: plan.begin_s[job] for job in group if job in plan.begin_s},
            {job: plan.tell[job] for job in group if job in plan.tell},
            frozenset(job for job in group if job in moved),
        )
        for group in members.values()
    )
    return tuple(sorted(groups, key=attrgetter("partitions")))


class QueueController:
    """Decides about the queue, and carries the decision out. `by` is the user or the part that orders it.

    `changed` has the last decision about each job, `comments` the last comment that the owner of each job has got.
    `deferred` are the jobs that the last cycle has put off: the view that it decided by does not show that.
    """

    def __init__(self, ledger: Ledger, problem_log: ProblemLog, *, by: str = AGENT) -> None:
        self._ledger, self._problem_log, self._by = ledger, problem_log, by
        self._marks: tuple[JobMark, ...] | None = None
        self._requested: dict[tuple[Mode, bool], QueueGroup] = {}
        self._tries: dict[Change, int] = {}
        self.comments: dict[str, str] = {}
        self.changed = DecisionFilter()
        self.deferred: frozenset[str] = frozenset()

    async def marks(self) -> tuple[JobMark, ...]:
        """Return offpeak's changes of jobs. Raises CannotWrite or BadLedger if the ledger cannot be read."""
        if self._marks is None:
            self._marks = await asyncio.to_thread(self._ledger.marks)
        return self._marks

    async def run_cycle(
        self,
        facts: QueueFacts,
        rules: QueueRules,
        orders: SchedulerOrders,
        modes: PartitionModes,
        *,
        most_changes: int | None = None,
    ) -> QueuePlan:
        """Decide, and carry the plan out as far as the modes allow. CannotWrite: no job is changed.

        With `most_changes` the later cycles make the rest of the changes. Those that were tried and are still wanted,
        because the scheduler rejects them, come after all others, so that they hold up nothing else.
        """
        plan = await asyncio.to_thread(plan_queue, facts, rules)
        self.deferred = frozenset()
        self._problem_log.report("queue policy", plan.problem or None)
        jobs = {job.job_id: job for job in facts.jobs}
        self._ledger.write_decisions(self.changed.of(plan.decisions, {f"job {job}" for job in jobs}))
        await self.remember(list(plan.seen))
        permitted = plan
        if not modes.may_rank:
            for group in group_plan(replace(plan, begin_s={}, tell={}), jobs, lambda _: Mode.SHADOW):
                await self._carry_out(group, plan, orders, Mode.SHADOW, is_only_order=True)
            permitted = plan.without_order
        # One order for all partitions of a mode: a large site has dozens of them, and each order takes its time.
        wanted: list[Change] = []
        made: list[Change] = []
        for group in group_plan(permitted, jobs, modes.of):
            mode = modes.of(group.partitions)
            if mode is Mode.ACTIVE:
                wanted += group.changes
                if most_changes is not None:
                    first = sorted(group.changes, key=lambda change: self._tries.get(change, 0))
                    group = group.only(frozenset(first[: max(most_changes - len(made), 0)]))
                made += group.changes
            await self._carry_out(group, permitted, orders, mode)
        self._tries = {change: self._tries[change] for change in wanted if change in self._tries}
        self._tries |= {change: self._tries.get(change, 0) + 1 for change in made}
        counts = f"{len(made)} of {len(wanted)}"
        rest = f"the scheduler limits requests: {counts} changes now, the rest in later cycles"
        self._problem_log.report("changes of jobs", rest if len(made) < len(wanted) else None)
        await self.forget(plan.forget)
        return plan

    async def forget(self, marks: Sequence[JobMark]) -> None:
        """Delete marks that have served."""
        if marks:
            await asyncio.to_thread(self._ledger.forget_marks, marks)
            self._marks = None

    async def _carry_out(
        self, group: QueueGroup, plan: QueuePlan, orders: SchedulerOrders, mode: Mode, *, is_only_order: bool = False
    ) -> None:
        key = mode, is_only_order
        if mode is not Mode.ACTIVE and self._requested.get(key) == group:
            # The ledger records the change that offpeak would have made.
            return
        self._requested[key] = group
        if mode is Mode.ACTIVE:
            await self.remember([mark for mark in plan.remember if mark.job in group.rank or mark.job in group.begin_s])
        if group.rank:
            why = f"{counted(len(group.rank), 'job')} in another order"
            self._report_failures(await orders.rank(group.name, group.rank, why=why, by=self._by), mode)
        if group.begin_s:
            why = f"another begin time for {counted(len(group.begin_s), 'job')}"
            result = await orders.defer(group.name, group.begin_s, why=why, by=self._by)
            self._report_failures(result, mode)
            later = {job for job, begin_s in group.begin_s.items() if begin_s != NOW and job not in result.failed}
            self.deferred |= later if result.done else set()
        texts = make_advice(group, self.changed.latest, self.comments) if mode is Mode.ADVISE else group.tell
        if texts:
            result = await orders.notify(
                group.name, texts, why=f"a notice for {counted(len(texts), 'owner')}", by=self._by
            )
            self._report_failures(result, mode)
            self.comments |= {job: text for job, text in group.tell.items() if result.done and job not in result.failed}

    async def remember(self, marks: Sequence[JobMark]) -> None:
        """Write marks before the changes that they record. Raises CannotWrite."""
        if marks:
            await asyncio.to_thread(self._ledger.remember_marks, marks)
            self._marks = None

    def _report_failures(self, result: SchedulerOrderResult, mode: Mode) -> None:
        """Report jobs that the scheduler did not change."""
        reasons = dict.fromkeys(result.failed.values())
        problem = (
            f"the scheduler did not change {counted(len(result.failed), 'job')}: {'; '.join(reasons)}"
            if reasons
            else None
        )
        self._problem_log.report(f"queue in mode {mode}", problem)


def make_plan_inputs(
    facts: QueueFacts, section: QueueSection, observed: ClusterObservation, surroundings: Surroundings
) -> PlanInputs:
    """Return the inputs of the planner. Raises BadInput for a facility that cannot be read."""
    nodes, plan = observed.view.nodes, section.plan
    full_power_w = max([section.idle_node_w, *facts.node_power_w.values()]) * max(len(nodes), 1)
    facility = facility_named(plan.facility, full_power_w=full_power_w) if plan.facility else uncooled_facility()
    room = PlanFacility(facility, section.idle_node_w, plan.revenue_per_core_h, plan.outside_c, plan.revenues or ())
    if facts.decides_by_co2:
        # Money and CO2 have no sum.
        room = replace(room, revenue_per_core_h=0.0, revenues=())
    rules = section.rules if section.rules.own_policy else replace(section.rules, policy=PLAN)
    return PlanInputs(
        queue=replace(facts, planned=None),
        rules=rules,
        nodes=tuple(nodes),
        shared_nodes=observed.traits.shared_nodes,
        room=room,
        caps=surroundings.caps,
        weather=surroundings.weather,
        measured_w=surroundings.measured_w,
    )


def uncooled_facility() -> Facility:
    """Return a machine room without costs of cooling, for a site that declares none."""
    return Facility("none", np.zeros(1), np.array([-100.0, 100.0]), np.ones((1, 2)))


RATE_PART = 0.5
"""The part of the requests that a scheduler takes of this user for changes of jobs; the rest is for nodes."""
SEARCH_S = 1.0
"""The time in each cycle for the search of a better order; the repair of the plan is not bounded by it."""
MOVES_S = float(HOUR_S)
"""The time between two recorded moves of a job that is planned again in every cycle."""


CAPS = "caps on power"
"""The subject of their problems in the log."""


class QueuePlanner:
    """Keeps the plan of the day, and repairs it in each cycle. `latest` is the last plan, None before the first.

    Under the other policies it plans only what caps on power leave to each job. `is_capped`: some cap was ahead.
    """

    def __init__(
        self, ledger: Ledger, problem_log: ProblemLog, surroundings: Callable[[], Awaitable[Surroundings]]
    ) -> None:
        self._ledger, self._problem_log, self._surroundings = ledger, problem_log, surroundings
        self.latest: DayPlan | None = None
        self._changed = DecisionFilter(again_after_s=MOVES_S)
        self.is_capped, self._is_warm = False, False

    async def add_plan(self, facts: QueueFacts, section: QueueSection, observed: ClusterObservation) -> QueueFacts:
        """Return the facts with the planned starts and the begin times that caps impose."""
        surroundings = await self._surroundings()
        self.is_capped = bool(surroundings.caps)
        if section.rules.policy == PLAN:
            facts = await self._add_starts(facts, section, observed, surroundings)
            if facts.planned is not None:
                return facts
        else:
            self._problem_log.report("plan", None)
        if surroundings.caps or (section.plan.has_cap_source and not self._is_warm):
            # The first time compiles kernels, before a cap needs them.
            from offpeak.plugin.day_plan.day_plan import constraints_of
            from offpeak.plugin.day_plan.make import plan_under_caps

            inputs = make_plan_inputs(facts, section, observed, surroundings)
            plan = await asyncio.to_thread(plan_under_caps, inputs)
            self._is_warm = True
            self._report_exceeded(plan, section.rules.zone)
            return replace(facts, constraints=constraints_of(plan))
        self._problem_log.report(CAPS, None)
        return facts

    async def _add_starts(
        self, facts: QueueFacts, section: QueueSection, observed: ClusterObservation, surroundings: Surroundings
    ) -> QueueFacts:
        """Return the facts with the plan, or unchanged without prices."""
        # An agent with another policy, and without caps, does without the kernels of the planner.
        from offpeak.plugin.day_plan.day_plan import constraints_of, planned_of
        from offpeak.plugin.day_plan.make import plan_day
        from offpeak.plugin.planner.orders import budget_of

        inputs = make_plan_inputs(facts, section, observed, surroundings)
        plan = await asyncio.to_thread(plan_day, inputs, self.latest, budget_of(SEARCH_S))
        problems = ("no price is known",) if plan is None else plan.violations[:1]
        self._problem_log.report("plan", "; ".join(problems) or None)
        if plan is None:
            return facts
        moves = [_move_decision(move, facts, section.rules.zone) for move in plan.moves]
        self._ledger.write_decisions(self._changed.of(moves, {f"job {job.job_id}" for job in facts.jobs}))
        self.latest = plan
        self._report_exceeded(plan, section.rules.zone)
        return replace(facts, planned=planned_of(plan), constraints=constraints_of(plan))

    def _report_exceeded(self, plan: DayPlan, zone: tzinfo) -> None:
        """Report the caps that running jobs exceed, in words that stay the same while the cap lasts."""
        from offpeak.plugin.day_plan.limits import find_exceeded_caps

        exceeded = [
            f"the cap of {watts_text(cap.cap_w)} until {format_clock(cap.until_s, plan.at_s, zone)} ({cap.reason})"
            " cannot hold yet: running jobs draw more, and only those that allow it are capped or stopped"
            for cap, _ in find_exceeded_caps(plan)
        ]
        self._problem_log.report(CAPS, "; ".join(exceeded) or None)


def _move_decision(move: StartChange, facts: QueueFacts, zone: tzinfo) -> DecisionRecord:
    from_text, to_text = (
        "no start" if at_s is None else format_clock(at_s, facts.now_s, zone) for at_s in (move.from_s, move.to_s)
    )
    inputs = (("planned_start_s", float(move.to_s)),) if move.to_s is not None else ()
    reason = f"from {from_text} to {to_text}: {move.why}"
    return DecisionRecord(facts.now_s, f"job {move.job_id}", "planned anew", reason, inputs)


SOON_S = 5.0
"""The shortest period if the time of a deferred job comes."""
AFTER_BEGIN_S = 1.0
"""The time by which the round follows that time, as clocks differ and the scheduler counts whole seconds."""


@dataclass
class QueueLoop(Loop):
    """Puts the queue in order once a cycle, and books the jobs that have ended.

    `doors` opens the doors to nodes and scheduler, `cycles` starts those of the scheduler, `on_decided` is called when
    jobs have been decided about, `run_checkpoints` stops running jobs after checkpoints. `facts` are those of the last
    round, `decided` the jobs that it has decided about.
    """

    site: Callable[[], SiteContext]
    observer: Observer
    accounts: JobAccounts
    doors: Callable[[], Awaitable[SiteOrders]]
    controller: QueueController
    planner: QueuePlanner
    cycles: CycleStarter
    on_decided: Callable[[], None]
    waits: WaitHistory
    clock: Callable[[], float]
    run_checkpoints: Callable[[QueueFacts, QueueRules, SchedulerOrders], Awaitable[None]]
    facts: QueueFacts | None = None
    decided: frozenset[str] = frozenset()

    name = "queue"

    @property
    def period_s(self) -> float:
        """The cycle of the agent, longer where the scheduler is busy, and shorter if a job may start before its end."""
        cycle_s, pace = self.site().settings.agent.cycle_s, self.observer.pace
        period_s = pace.period_s(cycle_s)
        if self._begins_in_s is None:
            return period_s
        return min(period_s, max(self._begins_in_s, pace.urgent_s(min(cycle_s, SOON_S))))

    def __post_init__(self) -> None:
        """Begin without a round."""
        self._begins_in_s: float | None = None

    async def round(self) -> None:
        """Put the queue in order once."""
        begun_s = self.clock()
        observed = await self.observer.observe(at_most_s=SAME_READING_PAUSES * self.period_s)
        if observed is None:
            return
        view = observed.view
        orders = await self.doors()
        self.facts = queue_facts(
            observed,
            draws=await self.accounts.draws(view),
            run_s=await self.accounts.run_s(view),
            marks=await self.controller.marks(),
            comments=self.controller.comments,
            cycle_s=self.period_s,
        )
        section = QueueSection.of(self.site())
        await asyncio.to_thread(self.waits.observe, self.facts.jobs, view.at_s)
        # A job that this round may delay would wait behind itself.
        flexibility = section.rules.flexibility
        counted = without_jobs(view, find_undecided_jobs(view, self.decided, flexibility))
        self.facts = add_wait_allowances(self.facts, replace(observed, view=counted), self.waits, section)
        self.facts = await self.planner.add_plan(self.facts, section, observed)
        modes, rate = self.site().modes, observed.traits.requests_per_s
        most = max(1, int(RATE_PART * rate * self.period_s)) if rate else None
        plan = await self.controller.run_cycle(self.facts, section.rules, orders.scheduler, modes, most_changes=most)
        if not plan.changes_nothing and Mode.ACTIVE in (modes.usual, *modes.own.values()):
            self.observer.forget()
        await self.run_checkpoints(self.facts, section.rules, orders.scheduler)
        if await self.cycles.follow(observed, orders.scheduler):
            self.observer.forget()
        self.decided = frozenset(job.job_id for job in view.jobs)
        self.on_decided()
        # A job that has just been deferred does not wait until the view shows its time.
        begins_s = [at_s for at_s in (self.cycles.next_begin_s, *plan.begin_s.values()) if at_s and at_s > view.at_s]
        self._begins_in_s = min(begins_s) + AFTER_BEGIN_S - begun_s if begins_s else None
        await self.accounts.book(view)
