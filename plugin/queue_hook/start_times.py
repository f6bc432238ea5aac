"""Plans the begin times of jobs whose owners allow a delay: the cheapest start within the latest, if it is worth it.

The scheduler itself starts the job after its begin time. A start costs the integral of the price over the job's run,
where every price of it is known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from offpeak.ledger.rows import DecisionRecord, Inputs, JobMark
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_MWH
from offpeak.model.step_series import IntegralCurve, Series, running_integral
from offpeak.prices.peak import Peak
from plugin.queue_hook.facts import SAME_S, QueueFacts, QueueRules, StartConstraint, format_clock, format_instant
from plugin.queue_hook.positions import (
    BEGIN,
    BY_ADMIN,
    NO_MARKS,
    JobMarks,
    MarksByJob,
    admin_mark,
    change_marks,
    is_ours,
)
from plugin.queue_hook.user_hints import HINT_PREFIX, UserHints, parse_user_hints
from plugin.scheduler.job import Job

EQUAL = 1e-9


@dataclass(frozen=True)
class StartCost:
    """A start [Unix s] and what each watt of its run would cost [price x s]; NaN where not all is known."""

    at_s: int
    per_watt: float


@dataclass(frozen=True, eq=False)
class CumulativePrice:
    """The integral of the price [price per MWh x s] from `edges_s[0]` on, and that of the time without a price [s]."""

    edges_s: Float64
    per_watt: IntegralCurve
    unknown_s: IntegralCurve


def cumulate_prices(prices: Series) -> CumulativePrice:
    """Return the sums from the first edge on."""
    edges_s: Float64 = np.append(prices.start_s, prices.end_s).astype(np.float64)
    paid = running_integral(edges_s, np.where(prices.known, prices.value, 0.0))
    unknown_s = running_integral(edges_s, np.where(prices.known, 0.0, 1.0))
    return CumulativePrice(edges_s, IntegralCurve(edges_s, paid), IntegralCurve(edges_s, unknown_s))


@dataclass(frozen=True, eq=False)
class StartCosts:
    """All starts of a job that runs for `run_s`, along the prices."""

    paid: CumulativePrice
    run_s: int
    _asked: dict[int, StartCost] = field(default_factory=dict)

    def at(self, at_s: int) -> StartCost:
        """Return the start at that second."""
        if at_s not in self._asked:
            self._asked[at_s] = StartCost(at_s, float(self._per_watt(np.array([at_s]))[0]))
        return self._asked[at_s]

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
        """The cost bends only where the run begins or ends with a price, so it is least at one of these starts."""
        at_s = np.union1d(self.paid.edges_s, self.paid.edges_s - self.run_s).astype(np.int64)
        cost = self._per_watt(at_s)
        return at_s, np.where(np.isnan(cost), np.inf, cost)

    def _per_watt(self, at_s: Int64) -> Float64:
        """Return the price times seconds [price per MWh x s] of starts at these seconds; NaN where not all is known."""
        end_s = at_s + self.run_s
        edges_s = self.paid.edges_s
        inside = (at_s >= edges_s[0]) & (end_s <= edges_s[-1])
        cost = self.paid.per_watt.between(at_s, end_s)
        if self.paid.unknown_s.total[-1]:
            inside &= self.paid.unknown_s.between(at_s, end_s) < EQUAL
        return np.where(inside, cost, np.nan)


def _upper_tolerance(least: float) -> float:
    return least + EQUAL * max(1.0, abs(least))


def run_cost(per_watt: float, power_w: float) -> float:
    """Return what a job that draws `power_w` pays."""
    return per_watt * power_w / J_PER_MWH


@dataclass(frozen=True)
class LatestStart:
    """The latest start that a job's owner allows, and the latest begin time: that less the expected wait [Unix s].

    The agent expects no waits yet, so both are the same there, and the start may come later than `start_s`.
    """

    start_s: int
    begin_s: int
    run_s: int


def find_latest_start(job: Job, consent: UserHints, facts: QueueFacts, rules: QueueRules) -> LatestStart | None:
    """Return how far the job may be delayed; None where its owner allows nothing, or its run time is not known.

    A deadline counts back from the limit, whatever is predicted: a job may take all of it.
    """
    expected = (facts.expected_run_s.get(job.job_id), job.limit_s)
    run_s = min((each for each in expected if each), default=None)
    if not consent.allows_delay or run_s is None:
        return None
    granted_s = rules.longest_delay_s if consent.delay_s is None else min(consent.delay_s, rules.longest_delay_s)
    start_s = job.submit_s + granted_s
    if consent.deadline_s is not None:
        if job.limit_s is None:
            return None
        start_s = min(start_s, consent.deadline_s - job.limit_s)
    return LatestStart(start_s, start_s - max(0, facts.expected_wait_s.get(job.job_id, 0)), run_s)


WORTH_IT = 0.03
"""A delay, or another begin time, has to save this share: for less nobody waits, and forecasts move by as much."""
NOW = 0
"""What Scheduler.defer takes for a begin without delay."""

StartCostsByRunTime = Callable[[int], StartCosts | None]
"""All starts of a job that runs for so many seconds; None where no price is to be trusted."""


@dataclass(frozen=True)
class BeginChoice:
    """When the job may start, and why; `begin_s` is NOW to let it go, None to leave its begin time to its owner."""

    begin_s: int | None
    decided: str
    reason: str
    inputs: Inputs = ()


def choose_begin(
    job: Job,
    consent: UserHints,
    marked: JobMarks,
    *,
    facts: QueueFacts,
    rules: QueueRules,
    starts_of: StartCostsByRunTime,
) -> BeginChoice | None:
    """Return what is to become of the job's begin time; None where it stays as it is."""
    if BEGIN + BY_ADMIN in marked:
        return None
    held_s = _future_begin_s(job, facts.now_s)
    bound = facts.planned.bound.get(job.job_id) if facts.planned and not consent.now else None
    if held_s is not None:
        mine = is_ours(marked, BEGIN, held_s) if BEGIN in marked else False
        if mine is None:
            return BeginChoice(None, "left alone", "its begin time was set by hand")
        if mine and bound:
            return None if abs(bound.begin_s - held_s) <= SAME_S else _keep_back(bound, facts, rules)
        return _revise_delay(job, consent, held_s, facts=facts, rules=rules, starts_of=starts_of) if mine else None
    if bound:
        return _keep_back(bound, facts, rules)
    if _was_released(job, marked, facts.now_s) or _gains_nothing(job, facts):
        return None
    return _choose_delay(job, consent, facts=facts, rules=rules, starts_of=starts_of)


def _keep_back(bound: StartConstraint, facts: QueueFacts, rules: QueueRules) -> BeginChoice:
    reason = f"not before {format_clock(bound.begin_s, facts.now_s, rules.zone)}: {bound.why}"
    return BeginChoice(bound.begin_s, "kept back", reason, (("begin_s", float(bound.begin_s)),))


def _gains_nothing(job: Job, facts: QueueFacts) -> bool:
    return facts.planned is not None and job.job_id in facts.planned.not_held


def _future_begin_s(job: Job, now_s: int) -> int | None:
    return job.begin_s if job.begin_s is not None and job.begin_s > now_s else None


def _was_released(job: Job, marked: JobMarks, now_s: int) -> bool:
    """Whether a delay of ours has ended: by itself, by us, or by somebody who gave it another begin time since."""
    mark = marked.get(BEGIN)
    return mark is not None and (mark.to <= now_s or (job.begin_s or 0) >= mark.at_unix_s)


def _choose_delay(
    job: Job, consent: UserHints, *, facts: QueueFacts, rules: QueueRules, starts_of: StartCostsByRunTime
) -> BeginChoice | None:
    room = find_latest_start(job, consent, facts, rules)
    starts = starts_of(room.run_s) if room and room.begin_s > facts.now_s else None
    if room is None or starts is None:
        return None
    now, best = starts.at(facts.now_s), starts.cheapest(facts.now_s, room.begin_s)
    if best is None or best.at_s == facts.now_s or not _is_worth_it(best, now):
        return None
    return _delay_choice(job, best, now, room, facts=facts, rules=rules)


def _revise_delay(
    job: Job, consent: UserHints, held_s: int, *, facts: QueueFacts, rules: QueueRules, starts_of: StartCostsByRunTime
) -> BeginChoice | None:
    room = find_latest_start(job, consent, facts, rules)
    if room is None:
        capless = "" if facts.planned is None else "no cap on power keeps it back, and "
        return BeginChoice(NOW, "let go", f"{capless}its owner allows no delay any more")
    if _gains_nothing(job, facts):
        return BeginChoice(NOW, "let go", "by the plan it would come to start in no cheaper hour")
    if room.begin_s <= facts.now_s:
        return BeginChoice(
            NOW, "let go", f"it may be kept back until {format_clock(room.start_s, facts.now_s, rules.zone)} only"
        )
    starts = starts_of(room.run_s)
    best = starts.cheapest(facts.now_s, room.begin_s) if starts else None
    if starts is None or best is None:
        # It was chosen by prices that were known then, and ends by itself.
        return (
            None if held_s <= room.begin_s else BeginChoice(NOW, "let go", "no price is known up to its latest start")
        )
    held = starts.at(held_s)
    if held_s <= room.begin_s and not _is_worth_it(best, held):
        return None
    if best.at_s == facts.now_s:
        return BeginChoice(NOW, "let go", "no later start is cheaper by now")
    return _delay_choice(job, best, starts.at(facts.now_s), room, facts=facts, rules=rules)


def _is_worth_it(best: StartCost, other: StartCost) -> bool:
    """Whether the start saves its share; what is not known beside it is never worth a bet."""
    return other.per_watt - best.per_watt > WORTH_IT * abs(other.per_watt)


def _delay_choice(
    job: Job, best: StartCost, now: StartCost, room: LatestStart, *, facts: QueueFacts, rules: QueueRules
) -> BeginChoice:
    mean, mean_now = best.per_watt / room.run_s, now.per_watt / room.run_s
    begin, latest = (format_clock(each, facts.now_s, rules.zone) for each in (best.at_s, room.start_s))
    against = "" if np.isnan(mean_now) else f" against {mean_now:.2f} now"
    unit = facts.prices.unit if facts.prices else ""
    reason = (
        f"not before {begin}: {mean:.2f} {unit} over its run{against}{_price_basis_text(best.at_s, facts)};"
        f" kept back until {latest} at the latest"
    )
    inputs: Inputs = (
        ("begin_s", float(best.at_s)),
        ("latest_start_s", float(room.start_s)),
        ("run_s", float(room.run_s)),
        ("price_per_mwh", mean),
        ("price_now_per_mwh", mean_now),
    )
    node_power_w = facts.node_power_w.get(job.job_id)
    if node_power_w is not None:
        inputs += (("saved", run_cost(now.per_watt - best.per_watt, node_power_w * job.nodes)),)
    return BeginChoice(best.at_s, "delayed", reason, tuple(each for each in inputs if each[1] == each[1]))


def _price_basis_text(at_s: int, facts: QueueFacts) -> str:
    if facts.prices is None or not facts.basis:
        return ""
    interval = int(np.searchsorted(facts.prices.start_s, at_s, side="right")) - 1
    return f" ({facts.basis[interval]})" if 0 <= interval < len(facts.basis) else ""


@dataclass(frozen=True)
class BeginTimes:
    """The begin times to write, what owners are to see, marks and decisions; `later` may not start now, then."""

    begin_s: dict[str, int] = field(default_factory=dict)
    tell: dict[str, str] = field(default_factory=dict)
    remember: list[JobMark] = field(default_factory=list)
    seen: list[JobMark] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    later: set[str] = field(default_factory=set)


def plan_begin_times(jobs: Iterable[Job], marked: MarksByJob, *, facts: QueueFacts, rules: QueueRules) -> BeginTimes:
    """Return the begin times of plain pending jobs. Where the present price is not known nothing is delayed anew."""
    plan, starts_of = BeginTimes(), start_costs_by_run_time(facts)
    for job in jobs:
        marks = marked.get(job.job_id, NO_MARKS)
        # Of most jobs nothing is to be said, and queues are long.
        bound = facts.planned is not None and job.job_id in facts.planned.bound
        if not (bound or marks or job.begin_s or HINT_PREFIX in job.comment or job.job_id in facts.told):
            continue
        consent = parse_user_hints(job.comment, rules.zone)
        if bound or consent.allows_delay or BEGIN in marks:
            choice = choose_begin(job, consent, marks, facts=facts, rules=rules, starts_of=starts_of)
            if choice:
                _apply_choice(plan, job, choice, marks, facts.now_s)
        _note_job(plan, job, consent, marks, facts=facts, rules=rules)
    return plan


def start_costs_by_run_time(facts: QueueFacts) -> StartCostsByRunTime:
    """Return all starts of a job that runs for so long, None where the present price is not known."""
    if facts.prices is None or facts.peak == Peak.UNKNOWN:
        return _no_costs
    paid = cumulate_prices(facts.prices)
    return cache(lambda run_s: StartCosts(paid, run_s))


def _no_costs(_run_s: int) -> None:
    return None


def _apply_choice(plan: BeginTimes, job: Job, choice: BeginChoice, marks: JobMarks, now_s: int) -> None:
    begin_s = job.begin_s or 0
    plan.decisions.append(DecisionRecord(now_s, f"job {job.job_id}", choice.decided, choice.reason, choice.inputs))
    if choice.begin_s is None:
        plan.seen.append(admin_mark(job, BEGIN, begin_s, now_s))
        return
    was = begin_s if begin_s > now_s else 0
    plan.begin_s[job.job_id] = choice.begin_s
    plan.remember.extend(change_marks(job, marks, BEGIN, value=was, to=choice.begin_s, now_s=now_s))


def _note_job(
    plan: BeginTimes, job: Job, consent: UserHints, marks: JobMarks, *, facts: QueueFacts, rules: QueueRules
) -> None:
    """Note whether the job waits from now on, and what its owner is to see."""
    begin_s = plan.begin_s.get(job.job_id, job.begin_s or 0)
    said = "; ".join(consent.troubles)
    if begin_s > facts.now_s:
        plan.later.add(job.job_id)
        room = find_latest_start(job, consent, facts, rules)
        bound = facts.planned.bound.get(job.job_id) if facts.planned else None
        if bound and (job.job_id in plan.begin_s or BEGIN in marks):
            said = f"not before {format_instant(begin_s, rules.zone)}: {bound.why}"
        elif room and (job.job_id in plan.begin_s or BEGIN in marks):
            said = f"not before {format_instant(begin_s, rules.zone)}, when electricity is cheaper;"
            said += f" kept back until {format_instant(room.start_s, rules.zone)} at the latest"
    if said != facts.told.get(job.job_id, ""):
        plan.tell[job.job_id] = said
