"""Plans the changed priorities of pending jobs: which values are written, their marks, and the reason for each move."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.ledger.rows import DecisionRecord, Inputs, JobMark
from offpeak.model.arrays import Int64
from offpeak.prices.peak import Peak
from plugin.queue_hook.facts import PLAN, QueueFacts, QueueRules, format_clock, format_peak
from plugin.queue_hook.positions import (
    BEFORE,
    NO_MARKS,
    PASSED,
    RANK,
    MarksByJob,
    QueuePosition,
    QueuePositions,
    admin_mark,
    change_marks,
    group_by_pool,
)
from plugin.queue_hook.window import (
    ReorderedWindow,
    StartedJobs,
    find_kept_positions,
    first_passed_s,
    passed_marks,
    reorder_window,
    started_jobs_by_pool,
    window_size,
)
from plugin.scheduler.job import Job
from plugin.scheduler.port import Ranking

BACK, FORWARD = "moved back", "moved forward"
MOVES = frozenset({BACK, FORWARD})


def explain_moves(
    arranged: Iterable[ReorderedWindow], written: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> list[DecisionRecord]:
    """Return a decision for each job of the windows in which something is written, in the wanted order."""
    changed = [each for each in arranged if any(one.job.job_id in written for one in each.window)]
    return [decision for each in changed for decision in _explain_window(each, facts, rules)]


def _explain_window(arranged: ReorderedWindow, facts: QueueFacts, rules: QueueRules) -> Iterator[DecisionRecord]:
    why = _window_reason(arranged, facts, rules)
    movable = [position for position in arranged.wanted if position not in arranged.kept]
    for position in arranged.wanted:
        subject = f"job {arranged.window[position].job.job_id}"
        if position in arranged.kept:
            yield DecisionRecord(facts.now_s, subject, "keeps its place", arranged.kept[position])
            continue
        beside = _nearest_passed(movable, position)
        if beside is not None:
            yield _explain_move(arranged, position, beside, why, facts=facts, rules=rules)


def _nearest_passed(wanted: Sequence[int], position: int) -> int | None:
    """Return the nearest position that changed sides with this one: if any does, one that now stands before it."""
    rank = wanted.index(position)
    before = [each for each in wanted[:rank] if each > position]
    behind = [each for each in wanted[rank + 1 :] if each < position]
    return before[-1] if before else (behind[0] if behind else None)


def _explain_move(
    arranged: ReorderedWindow, position: int, beside: int, why: str, *, facts: QueueFacts, rules: QueueRules
) -> DecisionRecord:
    job, other = arranged.window[position].job, arranged.window[beside].job
    back = beside > position
    said, inputs = _compare_jobs(job, other, why, facts=facts, rules=rules)
    reason = f"{'behind' if back else 'before'} {other.job_id}: {said}"
    if back:
        until_s = arranged.since_s.get(job.job_id, facts.now_s) + rules.max_postponement_s
        reason += f"; nobody is put before it after {format_clock(until_s, facts.now_s, rules.zone)}"
        inputs += (("keeps_place_from_s", float(until_s)),)
    return DecisionRecord(facts.now_s, f"job {job.job_id}", BACK if back else FORWARD, reason, inputs)


def _compare_jobs(job: Job, other: Job, why: str, *, facts: QueueFacts, rules: QueueRules) -> tuple[str, Inputs]:
    """Return what tells the two jobs apart."""
    if rules.policy == PLAN and facts.planned is not None:
        start_s, other_s = (facts.planned.start_s[each.job_id] for each in (job, other))
        at, other_at = (format_clock(each, facts.now_s, rules.zone) for each in (start_s, other_s))
        starts: Inputs = (("planned_start_s", float(start_s)), ("other_planned_start_s", float(other_s)))
        return f"planned for {at}, the other for {other_at}", (*starts, ("beside", other.job_id))
    power_w, other_w = (facts.node_power_w[each.job_id] for each in (job, other))
    draws: Inputs = (("node_power_w", power_w), ("other_node_power_w", other_w), ("beside", other.job_id))
    return f"{why}, {power_w:.0f} W/node against {other_w:.0f} W/node", draws


def _window_reason(arranged: ReorderedWindow, facts: QueueFacts, rules: QueueRules) -> str:
    why = format_peak(facts.peak, facts.peak_until_s, facts.now_s, rules.zone)
    return why if arranged.knapsack_free is None else f"{why}, {arranged.knapsack_free} free nodes are best filled so"


def find_jobs_to_write(
    standings: Sequence[QueuePosition], wanted: Mapping[str, int], group: Mapping[str, int]
) -> set[str]:
    """Return the jobs whose priority has to become `wanted`, the site's where that says nothing.

    `group` numbers the windows by job. Priorities age, so what counts is the order of all pending jobs, not the values:
    a window that stands as wanted is left alone. What was changed of jobs outside windows is always undone.
    """
    ids = [each.job.job_id for each in standings]
    number = np.array([each.number for each in standings], np.int64)
    aim = np.array([wanted.get(each.job.job_id, each.site) for each in standings], np.int64)
    inside = np.array([group.get(each, -1) for each in ids], np.int64)
    now = np.array([each.job.priority for each in standings], np.int64)
    now = np.where(inside < 0, aim, now)
    differs = np.zeros(len(ids), np.bool_)
    places, aimed = _ranks(now, number), _ranks(aim, number)
    if not np.array_equal(places, aimed):
        moved = np.unique(inside[places != aimed])
        differs = np.isin(inside, moved[moved >= 0])
        if not np.array_equal(_ranks(np.where(differs, aim, now), number), aimed):
            differs = inside >= 0
    differs &= now != aim
    undone = [each.job.job_id for each in standings if each.share and each.job.job_id not in group]
    return {ids[at] for at in np.flatnonzero(differs)} | set(undone)


def _ranks(value: Int64, number: Int64) -> NDArray[np.intp]:
    """Return the place of each job: larger values first, then smaller job numbers."""
    places = np.empty(len(value), np.intp)
    places[np.lexsort((number, -value))] = np.arange(len(value))
    return places


@dataclass(frozen=True)
class RankChanges:
    """The values to write by job, ready for the scheduler, with their marks, marks of what was seen, and decisions."""

    rank: Mapping[str, int]
    remember: tuple[JobMark, ...]
    seen: tuple[JobMark, ...]
    decisions: tuple[DecisionRecord, ...]


def plan_ranks(
    standings: QueuePositions, marked: MarksByJob, later: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> RankChanges:
    """Return the new order of the jobs that could start now. Where price, or plan, is not known nothing is moved."""
    hands = _note_admin_overrides(standings, facts)
    unplanned = rules.policy == PLAN and facts.planned is None
    if unplanned or (rules.policy != "off" and facts.peak == Peak.UNKNOWN):
        return hands
    arranged, passed = _reorder_pools(standings, marked, later, facts=facts, rules=rules)
    wanted, group = _desired_priorities(arranged)
    written = find_jobs_to_write(standings.all, wanted, group)
    rank, remember, undone = _changes(standings, marked, wanted, written, facts)
    said = {each.subject for each in hands.decisions}
    told = [each for each in explain_moves(arranged, written, facts=facts, rules=rules) if each.subject not in said]
    return RankChanges(rank, remember, (*hands.seen, *passed), (*hands.decisions, *told, *undone))


def _changes(
    standings: QueuePositions,
    marked: MarksByJob,
    wanted: Mapping[str, int],
    written: Collection[str],
    facts: QueueFacts,
) -> tuple[dict[str, int], tuple[JobMark, ...], list[DecisionRecord]]:
    """Return what is written, its marks, and a decision for each job that gets the site's value back."""
    rank: dict[str, int] = {}
    remember: list[JobMark] = []
    undone: list[DecisionRecord] = []
    for each in standings.all:
        job = each.job
        if job.job_id not in written:
            continue
        value, to = _change(each, wanted.get(job.job_id), facts.ranking)
        rank[job.job_id] = to
        if job.job_id in wanted:
            marks = marked.get(job.job_id, NO_MARKS)
            remember += change_marks(job, marks, RANK, value=value, to=to, now_s=facts.now_s)
        else:
            undone.append(_restored_decision(each, facts.now_s))
    return rank, tuple(remember), undone


def _note_admin_overrides(standings: QueuePositions, facts: QueueFacts) -> RankChanges:
    by_value = facts.ranking is Ranking.VALUE
    marks, decisions = [], []
    for each in standings.new_hands:
        value = each.job.priority if by_value else each.job.offset
        marks.append(admin_mark(each.job, RANK, value, facts.now_s))
        why = f"its priority {each.job.priority} is neither the site's nor ours: somebody set it"
        inputs = (("priority", float(each.job.priority)), ("offset", float(each.job.offset)))
        decisions.append(DecisionRecord(facts.now_s, f"job {each.job.job_id}", "left alone", why, inputs))
    return RankChanges({}, (), tuple(marks), tuple(decisions))


def _reorder_pools(
    standings: QueuePositions, marked: MarksByJob, later: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> tuple[list[ReorderedWindow], list[JobMark]]:
    if rules.policy == "off":
        return [], []
    started = started_jobs_by_pool(facts.jobs)
    arranged, passed = [], []
    for line_of, line in group_by_pool(standings.all, now_s=facts.now_s, later=later).items():
        window = line[: window_size(rules)]
        since_s, new = _passed(window, started.get(line_of, []), marked, facts.now_s)
        passed += new
        places = find_kept_positions(window, facts=facts, rules=rules, by_hand=standings.by_hand, since_s=since_s)
        arranged.append(reorder_window(line, places, since_s, facts=facts, rules=rules))
    return arranged, passed


def _passed(
    window: list[QueuePosition], started: StartedJobs, marked: MarksByJob, now_s: int
) -> tuple[dict[str, int], list[JobMark]]:
    """Return since when each job of the window is passed, and marks of those of whom that is new."""
    since_s, new = {}, []
    for each in window:
        marks = marked.get(each.job.job_id, NO_MARKS)
        since = first_passed_s(each, started, marks)
        if since is not None:
            since_s[each.job.job_id] = since
            new += [] if PASSED in marks else [each]
    return since_s, passed_marks(since_s, new, now_s)


def _desired_priorities(arranged: list[ReorderedWindow]) -> tuple[dict[str, int], dict[str, int]]:
    """Return each window job's wanted priority, and the number of its window."""
    wanted, group = {}, {}
    for number, each in enumerate(arranged):
        for standing, value in zip(each.window, each.values, strict=True):
            wanted[standing.job.job_id] = value
            group[standing.job.job_id] = number
    return wanted, group


def _change(each: QueuePosition, wanted: int | None, ranking: Ranking) -> tuple[int, int]:
    """Return what the job's priority or offset is, and what it is to become; the site's where nothing is wanted."""
    if ranking is Ranking.VALUE:
        return each.job.priority, each.site if wanted is None else wanted
    return each.job.offset, each.own if wanted is None else each.own + wanted - each.site


def _restored_decision(each: QueuePosition, now_s: int) -> DecisionRecord:
    inputs = (("priority", float(each.job.priority)), ("site_priority", float(each.site)))
    return DecisionRecord(now_s, f"job {each.job.job_id}", "given back", "it stands where the site put it", inputs)


def stale_marks(standings: QueuePositions, marked: MarksByJob, rank: Mapping[str, int]) -> list[JobMark]:
    """Return the marks of jobs that stand where the site put them, and stay there."""
    stale, busy = [], standings.by_hand | rank.keys()
    for each in standings.all:
        marks = marked.get(each.job.job_id, NO_MARKS)
        if RANK in marks and not each.share and each.job.job_id not in busy:
            stale += [marks[kind] for kind in (RANK, RANK + BEFORE) if kind in marks]
    return stale
