"""Which pending jobs change places: the windows of all competitions, what is written for them, and why."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.prices.peak import Peak
from plugin.queue_hook.arrange import Arranged, arrange, window_size
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.lines import Standings, lines_of
from plugin.queue_hook.moved import told_of
from plugin.queue_hook.passed import Started, marks_of_passed, passed_since, started_in
from plugin.queue_hook.places import places_of
from plugin.queue_hook.planned import PLAN
from plugin.queue_hook.standing import (
    BEFORE,
    NO_MARKS,
    PASSED,
    RANK,
    MarkedJobs,
    Standing,
    mark_of_hand,
    marks_of_change,
)
from plugin.queue_hook.written import to_write
from plugin.scheduler.port import Ranking


@dataclass(frozen=True)
class Ranks:
    """The values to write by job, ready for the scheduler, with their marks, marks of what was seen, and decisions."""

    rank: Mapping[str, int]
    remember: tuple[JobMark, ...]
    seen: tuple[JobMark, ...]
    decisions: tuple[DecisionRecord, ...]


def plan_ranks(
    standings: Standings, marked: MarkedJobs, later: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> Ranks:
    """Return the new order of the jobs that could start now. Where price, or plan, is not known nothing is moved."""
    hands = _hands(standings, facts)
    unplanned = rules.policy == PLAN and facts.planned is None
    if unplanned or (rules.policy != "off" and facts.peak == Peak.UNKNOWN):
        return hands
    arranged, passed = _arranged(standings, marked, later, facts=facts, rules=rules)
    wanted, group = _wanted(arranged)
    written = to_write(standings.all, wanted, group)
    rank, remember, undone = _changes(standings, marked, wanted, written, facts)
    said = {each.subject for each in hands.decisions}
    told = [each for each in told_of(arranged, written, facts=facts, rules=rules) if each.subject not in said]
    return Ranks(rank, remember, (*hands.seen, *passed), (*hands.decisions, *told, *undone))


def _changes(
    standings: Standings, marked: MarkedJobs, wanted: Mapping[str, int], written: Collection[str], facts: QueueFacts
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
            remember += marks_of_change(job, marks, RANK, value=value, to=to, now_s=facts.now_s)
        else:
            undone.append(_undone(each, facts.now_s))
    return rank, tuple(remember), undone


def _hands(standings: Standings, facts: QueueFacts) -> Ranks:
    by_value = facts.ranking is Ranking.VALUE
    marks, decisions = [], []
    for each in standings.new_hands:
        value = each.job.priority if by_value else each.job.offset
        marks.append(mark_of_hand(each.job, RANK, value, facts.now_s))
        why = f"its priority {each.job.priority} is neither the site's nor ours: somebody set it"
        inputs = (("priority", float(each.job.priority)), ("offset", float(each.job.offset)))
        decisions.append(DecisionRecord(facts.now_s, f"job {each.job.job_id}", "left alone", why, inputs))
    return Ranks({}, (), tuple(marks), tuple(decisions))


def _arranged(
    standings: Standings, marked: MarkedJobs, later: Collection[str], *, facts: QueueFacts, rules: QueueRules
) -> tuple[list[Arranged], list[JobMark]]:
    if rules.policy == "off":
        return [], []
    started = started_in(facts.jobs)
    arranged, passed = [], []
    for line_of, line in lines_of(standings.all, now_s=facts.now_s, later=later).items():
        window = line[: window_size(rules)]
        since_s, new = _passed(window, started.get(line_of, []), marked, facts.now_s)
        passed += new
        places = places_of(window, facts=facts, rules=rules, by_hand=standings.by_hand, since_s=since_s)
        arranged.append(arrange(line, places, since_s, facts=facts, rules=rules))
    return arranged, passed


def _passed(
    window: list[Standing], started: Started, marked: MarkedJobs, now_s: int
) -> tuple[dict[str, int], list[JobMark]]:
    """Return since when each job of the window is passed, and marks of those of whom that is new."""
    since_s, new = {}, []
    for each in window:
        marks = marked.get(each.job.job_id, NO_MARKS)
        since = passed_since(each, started, marks)
        if since is not None:
            since_s[each.job.job_id] = since
            new += [] if PASSED in marks else [each]
    return since_s, marks_of_passed(since_s, new, now_s)


def _wanted(arranged: list[Arranged]) -> tuple[dict[str, int], dict[str, int]]:
    """Return each window job's wanted priority, and the number of its window."""
    wanted, group = {}, {}
    for number, each in enumerate(arranged):
        for standing, value in zip(each.window, each.values, strict=True):
            wanted[standing.job.job_id] = value
            group[standing.job.job_id] = number
    return wanted, group


def _change(each: Standing, wanted: int | None, ranking: Ranking) -> tuple[int, int]:
    """Return what the job's priority or offset is, and what it is to become; the site's where nothing is wanted."""
    if ranking is Ranking.VALUE:
        return each.job.priority, each.site if wanted is None else wanted
    return each.job.offset, each.own if wanted is None else each.own + wanted - each.site


def _undone(each: Standing, now_s: int) -> DecisionRecord:
    inputs = (("priority", float(each.job.priority)), ("site_priority", float(each.site)))
    return DecisionRecord(now_s, f"job {each.job.job_id}", "given back", "it stands where the site put it", inputs)


def stale_marks(standings: Standings, marked: MarkedJobs, rank: Mapping[str, int]) -> list[JobMark]:
    """Return the marks of jobs that stand where the site put them, and stay there."""
    stale, busy = [], standings.by_hand | rank.keys()
    for each in standings.all:
        marks = marked.get(each.job.job_id, NO_MARKS)
        if RANK in marks and not each.share and each.job.job_id not in busy:
            stale += [marks[kind] for kind in (RANK, RANK + BEFORE) if kind in marks]
    return stale
