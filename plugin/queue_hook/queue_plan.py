"""The queue decision: from the facts to the priorities, begin times, notices and marks to write, with the reasons.

Begin times come first: a job that must wait leaves its window, a released job joins it. The new order of each window
becomes priorities. `restore_plan` undoes all changes of offpeak to jobs that still wait.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.ledger.rows import DecisionRecord, Inputs, JobMark
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.plugin.queue_hook.checkpoints import REQUEUED
from offpeak.plugin.queue_hook.facts import OFF, PLAN, QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import (
    BEFORE,
    BEGIN,
    BY_ADMIN,
    NO_MARKS,
    RANK,
    SHIFT,
    JobMarks,
    MarksByJob,
    QueuePosition,
    QueuePositions,
    marks_by_job,
    queue_position,
    queue_positions,
)
from offpeak.plugin.queue_hook.start_times import NOW, plan_begin_times
from offpeak.plugin.queue_hook.window import ReorderedWindow, full_node_w, reorder_windows
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.window_policy import WindowView
from offpeak.prices.peak import Peak
from offpeak.text import printable

NO_NODES = "the scheduler shows no nodes, so the queue keeps its order; check that the agent may see the nodes"

BACK, FORWARD = "moved back", "moved forward"
MOVES = frozenset({BACK, FORWARD})

PEAK_TEXTS = {Peak.ON_PEAK: "on-peak", Peak.OFF_PEAK: "off-peak", Peak.UNKNOWN: "no price is known"}


@dataclass(frozen=True)
class QueuePlan:
    """The changes to write, by job: `rank` for Scheduler.rank, `begin_s` for defer, `tell` for tell.

    `remember` are the marks of these changes, which must be on the disk before them. `seen` are marks of jobs that are
    not written: an admin's change, or a job that was passed. Without these marks the next start of the agent would
    forget the passed job and report the admin's change again. `forget` are outdated marks. `decisions` give the reason
    for each job that is moved, delayed, released or left alone. `problem` is why no order was decided, ""
    if it was: the scheduler shows no nodes, or a policy from outside failed; then the queue has the site's own order.
    """

    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    remember: tuple[JobMark, ...] = ()
    seen: tuple[JobMark, ...] = ()
    forget: tuple[JobMark, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()
    problem: str = ""

    @property
    def changes_nothing(self) -> bool:
        """Whether nothing is written to the scheduler."""
        return not (self.rank or self.begin_s or self.tell)

    @property
    def without_order(self) -> "QueuePlan":
        """The plan without the new order, its marks and its reasons."""
        remember = tuple(mark for mark in self.remember if mark.kind not in (RANK, RANK + BEFORE))
        return replace(self, rank={}, remember=remember, decisions=())


def plan_queue(facts: QueueFacts, rules: QueueRules) -> QueuePlan:
    """Return the changes of the queue; none where the queue is as desired.

    A job with a value that nothing here can handle is left alone, with the reason; it does not stop the other jobs.
    """
    try:
        return _plan_all(facts, rules)
    except OffpeakError:
        raise
    except Exception:
        broken = _find_broken_jobs(facts.pending, facts, rules)
        if not broken:
            raise
        jobs = tuple(_without_hints(job) if job.job_id in broken else job for job in facts.jobs)
        plan = _plan_all(replace(facts, jobs=jobs), rules)
        left = [DecisionRecord(facts.now_s, f"job {job}", "left alone", why) for job, why in broken.items()]
        return replace(plan, decisions=(*plan.decisions, *left))


def _find_broken_jobs(among: Sequence[Job], facts: QueueFacts, rules: QueueRules) -> dict[str, str]:
    """Return why no plan can be made of each of these waiting jobs of which none can be made even alone.

    It halves them: a long queue with one broken job takes the time of a few plans.
    """
    running = tuple(job for job in facts.jobs if job.state is not JobState.PENDING)
    try:
        _plan_all(replace(facts, jobs=(*running, *among)), rules)
    except Exception as problem:
        if len(among) == 1:
            why = f"a value of it cannot be handled: {type(problem).__name__}: {printable(str(problem))}"
            return {among[0].job_id: why}
        half = len(among) // 2
        return (
            {
                job: why
                for part in (among[:half], among[half:])
                for job, why in _find_broken_jobs(part, facts, rules).items()
            }
            if among
            else {}
        )
    return {}


def _without_hints(job: Job) -> Job:
    """Return the job without what its owner asks for: it keeps its place."""
    return job._replace(plain=False, comment="", limit_s=None, begin_s=None)


def _plan_all(facts: QueueFacts, rules: QueueRules) -> QueuePlan:
    marks = marks_by_job(facts.marks, facts.jobs)
    # A job that was just requeued gets its begin time from `plan_returns`.
    returns = {mark.job for mark in facts.marks if mark.kind == REQUEUED}
    plain = [job for job in facts.pending if job.plain and job.job_id not in returns]
    begins = plan_begin_times(plain, marks, facts=facts, rules=rules)
    released = {job_id for job_id, begin_s in begins.begin_s.items() if begin_s == NOW}
    startable = [job._replace(begin_s=None) if job.job_id in released else job for job in facts.pending]
    positions = queue_positions(startable, marks, facts)
    ranks = _plan_ranks(positions, marks, begins.delayed | returns, facts=facts, rules=rules)
    rank = ranks.rank
    stale, busy = [], positions.admin_overrides | rank.keys()
    for position in positions.all:
        of_job = marks.get(position.job.job_id, NO_MARKS)
        if RANK in of_job and not position.added and position.job.job_id not in busy:
            stale += [of_job[kind] for kind in (RANK, RANK + BEFORE) if kind in of_job]
    # The accounts read what a tier has moved some rounds after the end of the job: that mark stays for a week.
    numbers = {mark.job for mark in facts.marks}
    state = {(job.job_id, float(job.submit_s)): job.state for job in facts.jobs if job.job_id in numbers}
    forget = []
    for mark in facts.marks:
        found, is_shift = state.get((mark.job, mark.submitted_unix_s)), mark.kind.startswith(SHIFT)
        oldest_s = facts.now_s - (7 * DAY_S if is_shift else DAY_S)
        if (found is JobState.ENDED and not is_shift) or (found is None and mark.at_unix_s < oldest_s):
            forget.append(mark)
    return QueuePlan(
        rank=ranks.rank,
        begin_s=begins.begin_s,
        tell=begins.tell,
        remember=(*begins.remember, *ranks.remember),
        seen=(*begins.seen, *ranks.seen),
        forget=(*forget, *stale),
        decisions=(*begins.decisions, *ranks.decisions),
        problem=ranks.problem,
    )


@dataclass
class RankChanges:
    """The priorities or offsets to write by job, their marks, marks of what was seen, decisions, and a problem."""

    rank: dict[str, int] = field(default_factory=dict)
    remember: list[JobMark] = field(default_factory=list)
    seen: list[JobMark] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    problem: str = ""


def _plan_ranks(
    positions: QueuePositions, marks: MarksByJob, delayed: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> RankChanges:
    """Return the new order of the jobs that could start now.

    Without nodes, without a price, or without a plan, nothing is moved; a policy from outside also decides without a
    price. A scheduler that shows no nodes hides them, and what is hidden says nothing about the order written before.
    """
    changes = RankChanges()
    _add_admin_overrides(changes, positions, facts)
    if rules.policy != OFF and not facts.cluster.pools:
        if positions.all:
            changes.problem = NO_NODES
        return changes
    needs_price = rules.policy != OFF and rules.own_policy is None
    if (rules.policy == PLAN and facts.planned is None) or (needs_price and facts.peak == Peak.UNKNOWN):
        return changes
    reordered: list[ReorderedWindow] = []
    try:
        if rules.policy != OFF:
            reordered = reorder_windows(positions, marks, delayed, facts=facts, rules=rules)
    except OffpeakError as problem:
        changes.problem = "; ".join(filter(None, (f"the queue keeps the site's order: {problem}", problem.hint)))
        site_order = replace(rules, own_policy=keep_site_order)
        reordered = reorder_windows(positions, marks, delayed, facts=facts, rules=site_order)
    desired: dict[str, int] = {}
    group: dict[str, int] = {}
    for number, window in enumerate(reordered):
        changes.seen += window.window.passed_marks(marks, facts.now_s)
        for position, priority in zip(window.window.jobs, window.priorities, strict=True):
            desired[position.job.job_id] = priority
            group[position.job.job_id] = number
    written = find_jobs_to_write(positions.all, desired, group)
    changes.decisions += _explain_misfits(positions, facts) if rules.policy != OFF else ()
    changes.decisions += [
        DecisionRecord(facts.now_s, f"job {window.window.jobs[rank].job.job_id}", "keeps its place", why)
        for window in reordered
        for rank, why in window.window.alone.items()
    ]
    reported = {decision.subject for decision in changes.decisions}
    moves = [
        decision
        for window in reordered
        if any(one.job.job_id in written for one in window.window.jobs)
        for decision in _explain_window(window, facts, rules)
    ]
    changes.decisions += [move for move in moves if move.subject not in reported]
    reported |= {move.subject for move in moves}
    for position in positions.all:
        job, to = position.job, desired.get(position.job.job_id)
        if job.job_id in written:
            _add_rank(changes, position, to, marks.get(job.job_id, NO_MARKS), facts)
            if to in (None, position.site_priority) and f"job {job.job_id}" not in reported:
                changes.decisions.append(_explain_return(position, facts))
    return changes


def _explain_window(reordered: ReorderedWindow, facts: QueueFacts, rules: QueueRules) -> Iterator[DecisionRecord]:
    window = reordered.window
    why = PEAK_TEXTS[facts.peak] + (" by CO2" if facts.decides_by_co2 else "")
    if facts.peak_until_s is not None:
        why += f" until {rules.clock(facts.peak_until_s, facts.now_s)}"
    if reordered.free_nodes is not None:
        why += f", {reordered.free_nodes} free nodes are best filled so"
    movable = [rank for rank in reordered.desired if rank not in window.kept]
    for rank in reordered.desired:
        job = window.jobs[rank].job
        if rank in window.alone:
            continue
        if rank in window.kept:
            yield DecisionRecord(facts.now_s, f"job {job.job_id}", "keeps its place", window.kept[rank])
            continue
        beside = _nearest_passed(movable, rank)
        if beside is None:
            continue
        other = window.jobs[beside].job
        difference, inputs = _compare_jobs(job, other, why, facts=facts, rules=rules)
        reason = f"{'behind' if beside > rank else 'before'} {other.job_id}: {difference}"
        if beside > rank:
            until_s = window.passed_since_s.get(job.job_id, facts.now_s) + rules.max_postponement_s
            reason += f"; no job is put before it after {rules.clock(until_s, facts.now_s)}"
            inputs += (("keeps_place_from_s", float(until_s)),)
        decided = BACK if beside > rank else FORWARD
        yield DecisionRecord(facts.now_s, f"job {job.job_id}", decided, reason, inputs)


def _nearest_passed(desired: Sequence[int], rank: int) -> int | None:
    """Return the nearest rank that changed sides with this one, in the direction in which this one moved.

    If as many passed it as it passed, this is a rank that now stands before it.
    """
    place = desired.index(rank)
    before = [value for value in desired[:place] if value > rank]
    behind = [value for value in desired[place + 1 :] if value < rank]
    if len(behind) > len(before):
        return behind[0]
    return before[-1] if before else None


def _compare_jobs(job: Job, other: Job, why: str, *, facts: QueueFacts, rules: QueueRules) -> tuple[str, Inputs]:
    """Return the difference that decides the order of the two jobs."""
    if rules.policy == PLAN and facts.planned is not None:
        start_s, other_s = (facts.planned.start_s[each.job_id] for each in (job, other))
        at, other_at = (rules.clock(value, facts.now_s) for value in (start_s, other_s))
        starts: Inputs = (("planned_start_s", float(start_s)), ("other_planned_start_s", float(other_s)))
        return f"planned for {at}, the other for {other_at}", (*starts, ("beside", other.job_id))
    if rules.own_policy is not None:
        return f"so orders the policy {rules.policy}", (("beside", other.job_id),)
    power_w, other_w = (full_node_w(each, facts) for each in (job, other))
    draws: Inputs = (("node_power_w", power_w), ("other_node_power_w", other_w), ("beside", other.job_id))
    return f"{why}, {power_w:.0f} W/node against {other_w:.0f} W/node", draws


def _explain_return(position: QueuePosition, facts: QueueFacts) -> DecisionRecord:
    """Return the decision for a job that gets the site's own priority again."""
    job = position.job
    inputs = (("priority", float(job.priority)), ("site_priority", float(position.site_priority)))
    return DecisionRecord(
        facts.now_s, f"job {job.job_id}", "returned", "it has the place that the site gives it", inputs
    )


def keep_site_order(views: Sequence[WindowView]) -> list[list[int]]:
    """Leave each window in the site's own order."""
    return [list(range(len(view.size))) for view in views]


def _explain_misfits(positions: QueuePositions, facts: QueueFacts) -> Iterator[DecisionRecord]:
    """Yield a decision for each job that competes with no other: it fits no nodes, or its request is not understood."""
    for job in (position.job for position in positions.all):
        if job.plain and (why_not := facts.competition.fit(job).why_not):
            yield DecisionRecord(facts.now_s, f"job {job.job_id}", "keeps its place", why_not)


def _add_admin_overrides(changes: RankChanges, positions: QueuePositions, facts: QueueFacts) -> None:
    for job in (override.job for override in positions.new_overrides):
        value = job.priority if facts.ranking is Ranking.VALUE else job.offset
        changes.seen.append(JobMarks.of_admin(job, RANK, value, facts.now_s))
        why = f"its priority {job.priority} is neither the site's nor ours: somebody set it"
        inputs = (("priority", float(job.priority)), ("offset", float(job.offset)))
        changes.decisions.append(DecisionRecord(facts.now_s, f"job {job.job_id}", "left alone", why, inputs))


def _add_rank(
    changes: RankChanges, position: QueuePosition, desired: int | None, marks: JobMarks, facts: QueueFacts
) -> None:
    """Add the value to write for a job, which is the site's own where no priority is desired."""
    job = position.job
    priority = position.site_priority if desired is None else desired
    value, to = job.priority, priority
    if facts.ranking is not Ranking.VALUE:
        value, to = job.offset, position.user_offset + priority - position.site_priority
    changes.rank[job.job_id] = to
    if desired is not None:
        changes.remember += marks.of_change(job, RANK, value=value, to=to, now_s=facts.now_s)


def find_jobs_to_write(
    positions: Sequence[QueuePosition], desired: Mapping[str, int], group: Mapping[str, int]
) -> set[str]:
    """Return the jobs whose priority must become `desired`, or the site's if they have no desired priority.

    `group` numbers the windows by job. Priorities age, so the order of all pending jobs counts, not the values: a
    window that is in the desired order is left alone. Our changes of jobs outside windows are always undone.
    """
    ids = [position.job.job_id for position in positions]
    number = np.array([position.number for position in positions], np.int64)
    target = np.array([desired.get(position.job.job_id, position.site_priority) for position in positions], np.int64)
    inside = np.array([group.get(id_, -1) for id_ in ids], np.int64)
    now = np.array([position.job.priority for position in positions], np.int64)
    now = np.where(inside < 0, target, now)
    differs = np.zeros(len(ids), np.bool_)
    places, target_places = _places(now, number), _places(target, number)
    if not np.array_equal(places, target_places):
        moved = np.unique(inside[places != target_places])
        differs = np.isin(inside, moved[moved >= 0])
        if not np.array_equal(_places(np.where(differs, target, now), number), target_places):
            differs = inside >= 0
    differs &= now != target
    undone = [position.job.job_id for position in positions if position.added and position.job.job_id not in group]
    return {ids[at] for at in np.flatnonzero(differs)} | set(undone)


def _places(priority: Int64, number: Int64) -> NDArray[np.intp]:
    """Return the place of each job: larger priorities first, then smaller job numbers."""
    places = np.empty(len(priority), np.intp)
    places[np.lexsort((number, -priority))] = np.arange(len(priority))
    return places


def restore_plan(jobs: Sequence[Job], marks: Iterable[JobMark], *, ranking: Ranking) -> QueuePlan:
    """Return the writes that undo our changes of pending jobs; what an admin set since is left alone."""
    marked = marks_by_job(marks, jobs)
    rank, begin_s = {}, {}
    for job in jobs:
        of_job = marked.get(job.job_id)
        if of_job is None or job.state is not JobState.PENDING:
            continue
        if queue_position(job, of_job, ranking).added and RANK + BY_ADMIN not in of_job:
            rank[job.job_id] = of_job[RANK].was
        if job.begin_s and of_job.is_ours(BEGIN, job.begin_s) and BEGIN + BY_ADMIN not in of_job:
            begin_s[job.job_id] = of_job[BEGIN].was
    return QueuePlan(rank, begin_s)
