"""Plans the begin times of jobs whose owners allow a delay: the cheapest start up to the latest, if it saves enough.

The scheduler itself starts the job after its begin time. The cost of a start is the integral of the price over the
job's run; it is known if every price of the run is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from offpeak.ledger.rows import DecisionRecord, Inputs, JobMark
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_MWH
from offpeak.model.flexibility import RIGID, Flexibility, Tier
from offpeak.model.step_series import sorted_once
from offpeak.plugin.queue_hook.facts import (
    CAP_AHEAD_S,
    EQUAL,
    NO_DATE,
    PriceIntegral,
    QueueFacts,
    QueueRules,
    StartConstraint,
    WaitAllowance,
    local_time,
)
from offpeak.plugin.queue_hook.positions import (
    BEGIN,
    BY_ADMIN,
    BY_CAP,
    EXPECTED_SAVING,
    NO_MARKS,
    SHIFT,
    TASKS,
    JobMarks,
    MarksByJob,
)
from offpeak.plugin.scheduler.job import Job

NO_LIMIT = "its deadline has no effect: a job without a time limit is never delayed"

SAME_S = 60
"""A begin time that would move by less stays."""
LEAST_SAVING = 0.03
"""The share that a delay, or another begin time, must save. Forecasts move by as much."""
SUBMISSION_HOLD_S = 121
"""deploy/slurm/job_submit.lua lets a job that may wait begin two minutes after its submission: time for a decision."""
KEPT_BACK, LET_GO = "kept back", "released"
NO_CAP = "the cap on power that kept it back no longer does"
NOW = 0
"""The begin time by which Scheduler.defer releases a job."""


@dataclass(frozen=True)
class StartCost:
    """A start [Unix s] and the cost of its run per watt [price x s]; NaN if a price of the run is not known."""

    at_s: int
    per_watt: float


@dataclass(frozen=True, eq=False)
class StartCosts:
    """The costs of all starts of a job that runs for `run_s`."""

    prices: PriceIntegral
    run_s: int
    _known: dict[int, StartCost] = field(default_factory=dict)

    def at(self, at_s: int) -> StartCost:
        """Return the cost of the start at that second."""
        if at_s not in self._known:
            per_watt = self.prices.per_watt(np.array([at_s]), self.run_s)
            self._known[at_s] = StartCost(at_s, float(per_watt[0]))
        return self._known[at_s]

    def cheapest(self, from_s: int, until_s: int) -> StartCost | None:
        """Return the cheapest start from `from_s` to `until_s`, both included, the earliest of equals, or None."""
        tried = [self.at(from_s), *self._best_between(from_s, until_s), self.at(until_s)]
        known = [start for start in tried if start.per_watt == start.per_watt]
        least = min((start.per_watt for start in known), default=0.0)
        return next((start for start in known if start.per_watt <= _upper_tolerance(least)), None)

    def _best_between(self, from_s: int, until_s: int) -> list[StartCost]:
        at_s, cost = self._turning
        first, end = np.searchsorted(at_s, (from_s, until_s), side="left")
        inside = cost[first:end]
        if not len(inside) or np.isinf(least := float(inside.min())):
            return []
        best = first + int(np.argmax(inside <= _upper_tolerance(least)))
        return [StartCost(int(at_s[best]), float(cost[best]))]

    @cached_property
    def _turning(self) -> tuple[Int64, Float64]:
        """The starts and costs at which the run begins or ends with a price: the cost is least at one of them."""
        edges_s = self.prices.edges_s
        at_s = sorted_once(edges_s, edges_s - self.run_s)
        cost = self.prices.per_watt(at_s, self.run_s)
        return at_s, np.where(np.isnan(cost), np.inf, cost)


def _upper_tolerance(least: float) -> float:
    return least + EQUAL * max(1.0, abs(least))


@dataclass(frozen=True)
class LatestStart:
    """The latest start that a job's owner allows [Unix s], and the wait that is subtracted for the latest begin time.

    The job starts later than `start_s` if it waits longer than that.
    """

    start_s: int
    run_s: int
    allowance: WaitAllowance

    @property
    def begin_s(self) -> int:
        """The latest begin time [Unix s]."""
        return self.start_s - max(0, self.allowance.wait_s)


def latest_start_s(job: Job, hints: Flexibility, rules: QueueRules) -> int | None:
    """Return the latest start that the job's owner allows [Unix s]; None if the owner allows no delay.

    A deadline counts back from the time limit, not from the prediction, because a job may use all of it. One that
    cannot be kept allows no delay beyond the submission.
    """
    if not hints.allows_delay:
        return None
    longest_s = rules.longest_delay_s
    start_s = job.submit_s + (longest_s if hints.delay_s is None else min(hints.delay_s, longest_s))
    if hints.deadline_s is None:
        return start_s
    return None if job.limit_s is None else max(job.submit_s, min(start_s, hints.deadline_s - job.limit_s))


@dataclass(frozen=True)
class BeginChoice:
    """When the job may start, and why; `begin_s` is NOW to release it, None to leave an admin's begin time alone.

    `tier` is set if the job waits because its tier allows it.
    """

    begin_s: int | None
    decided: str
    reason: str
    inputs: Inputs = ()
    tier: Tier | None = None


@dataclass(frozen=True, eq=False)
class BeginTimePlanner:
    """Chooses the begin time of each job. It delays no further job while the present price is not known."""

    facts: QueueFacts
    rules: QueueRules
    _start_costs: dict[int, StartCosts] = field(default_factory=dict)

    def start_costs(self, run_s: int) -> StartCosts | None:
        """Return the costs of all starts of a job that runs for `run_s`; None if the present price is not known."""
        prices = self.facts.price_integral
        if prices is None:
            return None
        if run_s not in self._start_costs:
            self._start_costs[run_s] = StartCosts(prices, run_s)
        return self._start_costs[run_s]

    def constraint(self, job: Job) -> StartConstraint | None:
        """Return the begin time that a power cap imposes on the job."""
        return self.facts.constraints.get(job.job_id)

    def latest_start(self, job: Job, hints: Flexibility) -> LatestStart | None:
        """Return the latest start; None if its owner allows no delay, or if its run time is not known."""
        expected = (self.facts.expected_run_s.get(job.job_id), job.limit_s)
        run_s = min((value for value in expected if value), default=None)
        start_s = latest_start_s(job, hints, self.rules)
        if start_s is None or run_s is None:
            return None
        return LatestStart(start_s, run_s, self.facts.wait_allowance(job))

    def choose_begin(self, job: Job, hints: Flexibility, marks: JobMarks) -> BeginChoice | None:
        """Return the change of the job's begin time; None if it does not change."""
        if BEGIN + BY_ADMIN in marks:
            return None
        now_s = self.facts.now_s
        constraint = None if hints.now else self._limited_constraint(job)
        if job.begin_s is not None and job.begin_s > now_s:
            ours = marks.is_ours(BEGIN, job.begin_s)
            if ours is None:
                return BeginChoice(None, "left alone", "its begin time was set by hand")
            if not ours and not (hints.allows_delay and job.begin_s - job.submit_s <= SUBMISSION_HOLD_S):
                return None
            if not ours:
                return self._keep_back(constraint) if constraint else self._choose_delay(job, hints)
            cap_until_s, is_stopped = (marks[BY_CAP].to, bool(marks[BY_CAP].was)) if BY_CAP in marks else (0, False)
            if constraint is None and cap_until_s > now_s:
                after_s = max(job.begin_s - cap_until_s, 0)
                choice = None if is_stopped or self._gains_nothing(job) else self._choose_delay(job, hints)
                begin_s = self.facts.now_s + after_s if after_s and not hints.now else NOW
                return choice or BeginChoice(begin_s, LET_GO, NO_CAP)
            if constraint is None and is_stopped:
                # A release that the scheduler did not carry out is ordered again.
                to = marks[BEGIN].to
                return BeginChoice(to if to > now_s else NOW, LET_GO, NO_CAP) if to < job.begin_s else None
            if constraint is None:
                return self._revise_delay(job, hints, job.begin_s)
            # A job that an event has stopped begins some time after it, as the ramp allows.
            is_later = now_s < cap_until_s < job.begin_s and constraint.begin_s <= job.begin_s
            is_same = is_later or abs(constraint.begin_s - job.begin_s) <= SAME_S
            return None if is_same else self._keep_back(constraint)
        if constraint:
            return self._keep_back(constraint)
        if _was_released(job, marks, now_s) or self._gains_nothing(job):
            return None
        return self._choose_delay(job, hints)

    def _limited_constraint(self, job: Job) -> StartConstraint | None:
        """Return the constraint up to CAP_AHEAD_S; each change is a request, so a begin time far enough ahead stays."""
        constraint, latest_s = self.constraint(job), self.facts.now_s + CAP_AHEAD_S
        if constraint is None or constraint.begin_s <= latest_s:
            return constraint
        stays = job.begin_s is not None and latest_s - CAP_AHEAD_S // 2 <= job.begin_s <= latest_s
        return replace(constraint, begin_s=job.begin_s if stays and job.begin_s else latest_s)

    def _keep_back(self, constraint: StartConstraint) -> BeginChoice:
        begin_s = constraint.begin_s
        reason = f"not before {self._clock(begin_s)}: {constraint.why}"
        return BeginChoice(begin_s, KEPT_BACK, reason, (("begin_s", float(begin_s)),))

    def _gains_nothing(self, job: Job) -> bool:
        return self.facts.planned is not None and job.job_id in self.facts.planned.not_held

    def _choose_delay(self, job: Job, hints: Flexibility) -> BeginChoice | None:
        now_s = self.facts.now_s
        latest = self.latest_start(job, hints)
        starts = self.start_costs(latest.run_s) if latest and latest.begin_s > now_s else None
        if latest is None or starts is None:
            return None
        now, best = starts.at(now_s), starts.cheapest(now_s, latest.begin_s)
        if best is None or best.at_s == now_s or not saves_enough(best, now):
            return None
        return self._delay_choice(job, best, now, latest, hints)

    def _revise_delay(self, job: Job, hints: Flexibility, begin_s: int) -> BeginChoice | None:
        now_s, latest = self.facts.now_s, self.latest_start(job, hints)
        if latest is None:
            return BeginChoice(NOW, LET_GO, "no cap on power keeps it back, and its owner allows no delay")
        if self._gains_nothing(job):
            return BeginChoice(NOW, LET_GO, f"by the plan it would start in no {self._gain} hour")
        if latest.begin_s <= now_s:
            until = f"{self._clock(latest.start_s)} only{latest.allowance.text}"
            return BeginChoice(NOW, LET_GO, f"it may be kept back until {until}")
        starts = self.start_costs(latest.run_s)
        best = starts.cheapest(now_s, latest.begin_s) if starts else None
        if starts is None or best is None:
            # The begin time was chosen by prices that were known then, and passes by itself.
            if begin_s <= latest.begin_s:
                return None
            return BeginChoice(NOW, LET_GO, "no price is known up to its latest start")
        if begin_s <= latest.begin_s and not saves_enough(best, starts.at(begin_s)):
            return None
        if best.at_s == now_s:
            return BeginChoice(NOW, LET_GO, f"no later start is {self._gain} by now")
        return self._delay_choice(job, best, starts.at(now_s), latest, hints)

    def _delay_choice(
        self, job: Job, best: StartCost, now: StartCost, latest: LatestStart, hints: Flexibility
    ) -> BeginChoice:
        facts = self.facts
        mean, mean_now = best.per_watt / latest.run_s, now.per_watt / latest.run_s
        against = "" if np.isnan(mean_now) else f" against {mean_now:.2f} now"
        unit = facts.prices.unit if facts.prices else ""
        reason = (
            f"not before {self._clock(best.at_s)}: {mean:.2f} {unit} over its run{against}"
            f"{self._price_basis(best.at_s)}; kept back until {self._clock(latest.start_s)} at the latest"
            f"{latest.allowance.text}"
        )
        inputs: Inputs = (
            ("begin_s", float(best.at_s)),
            ("latest_start_s", float(latest.start_s)),
            ("wait_allowance_s", float(latest.start_s - latest.begin_s)),
            ("run_s", float(latest.run_s)),
            ("price_per_mwh", mean),
            ("price_now_per_mwh", mean_now),
        )
        node_power_w = facts.node_power_w.get(job.job_id)
        if node_power_w is not None:
            expected = (now.per_watt - best.per_watt) * node_power_w * job.nodes * job.tasks / J_PER_MWH
            inputs += ((EXPECTED_SAVING, expected), *([(TASKS, float(job.tasks))] if job.is_array else []))
        known = tuple(each for each in inputs if each[1] == each[1])
        return BeginChoice(best.at_s, "delayed", reason, known, hints.tier(job.submit_s))

    def _price_basis(self, at_s: int) -> str:
        facts = self.facts
        if facts.prices is None or not facts.basis:
            return ""
        interval = int(np.searchsorted(facts.prices.start_s, at_s, side="right")) - 1
        return f" ({facts.basis[interval]})" if 0 <= interval < len(facts.basis) else ""

    def _clock(self, at_s: int) -> str:
        return self.rules.clock(at_s, self.facts.now_s)

    def notice(self, job: Job, hints: Flexibility, *, begin_s: int, is_ours: bool) -> str:
        """Return the notice to the job's owner; `is_ours` if offpeak set the begin time."""
        if is_ours and begin_s > self.facts.now_s:
            constraint, latest = self.constraint(job), self.latest_start(job, hints)
            if constraint:
                return f"not before {self._instant(begin_s)}: {constraint.why}"
            if latest:
                return (
                    f"not before {self._instant(begin_s)}, when electricity is {self._gain};"
                    f" kept back until {self._instant(latest.start_s)} at the latest"
                )
        has_no_limit = hints.deadline_s is not None and job.limit_s is None and not hints.now
        return "; ".join((*hints.errors, *((NO_LIMIT,) if has_no_limit else ())))

    @property
    def _gain(self) -> str:
        return "cleaner" if self.facts.decides_by_co2 else "cheaper"

    def _instant(self, at_s: int) -> str:
        """Return a local time that reads the same on every day: 2026-11-22 02:00."""
        at = local_time(at_s, self.rules.zone)
        return f"{at:%Y-%m-%d %H:%M}" if at else NO_DATE


def shift_mark(job: Job, tier: Tier, *, baseline_s: int, begin_s: int, now_s: int) -> JobMark:
    """Return the mark of a job whose start its tier moves: `was` is the start that it would have without it.

    The ledger keeps `was` when the begin time moves again.
    """
    return JobMark(job.job_id, job.submit_s, f"{SHIFT}{tier.name}", baseline_s, begin_s, now_s)


def _was_released(job: Job, marks: JobMarks, now_s: int) -> bool:
    """Return whether a delay by offpeak has ended: by time, by offpeak, or because somebody set another begin time."""
    mark = marks.get(BEGIN)
    return mark is not None and (mark.to <= now_s or (job.begin_s or 0) >= mark.at_unix_s)


def saves_enough(best: StartCost, other: StartCost) -> bool:
    """Return whether the start saves its share; never if one of the costs is not known."""
    return other.per_watt - best.per_watt > LEAST_SAVING * abs(other.per_watt)


@dataclass(frozen=True)
class BeginTimes:
    """The begin times to write, the notices to owners, marks and decisions; `delayed` jobs may not start now."""

    begin_s: dict[str, int] = field(default_factory=dict)
    tell: dict[str, str] = field(default_factory=dict)
    remember: list[JobMark] = field(default_factory=list)
    seen: list[JobMark] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    delayed: set[str] = field(default_factory=set)


def plan_begin_times(jobs: Iterable[Job], marks: MarksByJob, *, facts: QueueFacts, rules: QueueRules) -> BeginTimes:
    """Return the begin times of plain pending jobs."""
    plan, planner = BeginTimes(), BeginTimePlanner(facts, rules)
    for job in jobs:
        of_job, constraint = marks.get(job.job_id, NO_MARKS), job.job_id in facts.constraints
        # Queues are long, and most jobs have neither a hint nor a change.
        hints = rules.hints(job)
        if not (constraint or of_job or job.begin_s or hints != RIGID or job.job_id in facts.notices):
            continue
        if constraint or hints.allows_delay or BEGIN in of_job:
            choice = planner.choose_begin(job, hints, of_job)
            if choice:
                _add_choice(plan, job, choice, of_job, facts.now_s)
        begin_s = plan.begin_s.get(job.job_id, job.begin_s or 0)
        if begin_s > facts.now_s:
            plan.delayed.add(job.job_id)
        notice = planner.notice(job, hints, begin_s=begin_s, is_ours=job.job_id in plan.begin_s or BEGIN in of_job)
        if notice != facts.notices.get(job.job_id, ""):
            plan.tell[job.job_id] = notice
    return plan


def _add_choice(plan: BeginTimes, job: Job, choice: BeginChoice, marks: JobMarks, now_s: int) -> None:
    begin_s = job.begin_s or 0
    plan.decisions.append(DecisionRecord(now_s, f"job {job.job_id}", choice.decided, choice.reason, choice.inputs))
    if choice.begin_s is None:
        plan.seen.append(JobMarks.of_admin(job, BEGIN, begin_s, now_s))
        return
    value = begin_s if begin_s > now_s else 0
    plan.begin_s[job.job_id] = choice.begin_s
    plan.remember.extend(marks.of_change(job, BEGIN, value=value, to=choice.begin_s, now_s=now_s))
    is_by_cap = choice.decided == KEPT_BACK
    if is_by_cap or BY_CAP in marks:
        plan.remember.append(JobMark(job.job_id, job.submit_s, BY_CAP, 0, choice.begin_s if is_by_cap else 0, now_s))
    if choice.tier is not None:
        baseline_s = now_s + int(dict(choice.inputs).get("wait_allowance_s", 0.0))
        plan.remember.append(shift_mark(job, choice.tier, baseline_s=baseline_s, begin_s=choice.begin_s, now_s=now_s))
