"""Which consenting jobs wait for a cheaper hour: their begin times, by which the scheduler itself lets them go."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.prices.peak import Peak
from plugin.queue_hook.choice import Choice, StartsOf, choose_begin
from plugin.queue_hook.consent import MARK, Consent, consent_of
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.latest import leeway
from plugin.queue_hook.standing import BEGIN, NO_MARKS, Marked, MarkedJobs, mark_of_hand, marks_of_change
from plugin.queue_hook.starts import Starts, paid_along
from plugin.queue_hook.words import instant
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class Begins:
    """The begin times to write, what owners are to see, marks and decisions; `later` may not start now, then."""

    begin_s: dict[str, int] = field(default_factory=dict)
    tell: dict[str, str] = field(default_factory=dict)
    remember: list[JobMark] = field(default_factory=list)
    seen: list[JobMark] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    later: set[str] = field(default_factory=set)


def plan_begins(jobs: Iterable[Job], marked: MarkedJobs, *, facts: QueueFacts, rules: QueueRules) -> Begins:
    """Return the begin times of plain pending jobs. Where the present price is not known nothing is delayed anew."""
    plan, starts_of = Begins(), all_starts(facts)
    for job in jobs:
        marks = marked.get(job.job_id, NO_MARKS)
        # Of most jobs nothing is to be said, and queues are long.
        bound = facts.planned is not None and job.job_id in facts.planned.bound
        if not (bound or marks or job.begin_s or MARK in job.comment or job.job_id in facts.told):
            continue
        consent = consent_of(job.comment, rules.zone)
        if bound or consent.allows_delay or BEGIN in marks:
            choice = choose_begin(job, consent, marks, facts=facts, rules=rules, starts_of=starts_of)
            if choice:
                _take(plan, job, choice, marks, facts.now_s)
        _note(plan, job, consent, marks, facts=facts, rules=rules)
    return plan


def all_starts(facts: QueueFacts) -> StartsOf:
    """Return all starts of a job that runs for so long, None where the present price is not known."""
    if facts.prices is None or facts.peak == Peak.UNKNOWN:
        return _unknown
    paid = paid_along(facts.prices)
    return cache(lambda run_s: Starts(paid, run_s))


def _unknown(_run_s: int) -> None:
    return None


def _take(plan: Begins, job: Job, choice: Choice, marks: Marked, now_s: int) -> None:
    begin_s = job.begin_s or 0
    plan.decisions.append(DecisionRecord(now_s, f"job {job.job_id}", choice.decided, choice.reason, choice.inputs))
    if choice.begin_s is None:
        plan.seen.append(mark_of_hand(job, BEGIN, begin_s, now_s))
        return
    was = begin_s if begin_s > now_s else 0
    plan.begin_s[job.job_id] = choice.begin_s
    plan.remember.extend(marks_of_change(job, marks, BEGIN, value=was, to=choice.begin_s, now_s=now_s))


def _note(plan: Begins, job: Job, consent: Consent, marks: Marked, *, facts: QueueFacts, rules: QueueRules) -> None:
    """Note whether the job waits from now on, and what its owner is to see."""
    begin_s = plan.begin_s.get(job.job_id, job.begin_s or 0)
    said = "; ".join(consent.troubles)
    if begin_s > facts.now_s:
        plan.later.add(job.job_id)
        room = leeway(job, consent, facts, rules)
        bound = facts.planned.bound.get(job.job_id) if facts.planned else None
        if bound and (job.job_id in plan.begin_s or BEGIN in marks):
            said = f"not before {instant(begin_s, rules.zone)}: {bound.why}"
        elif room and (job.job_id in plan.begin_s or BEGIN in marks):
            said = f"not before {instant(begin_s, rules.zone)}, when electricity is cheaper;"
            said += f" kept back until {instant(room.start_s, rules.zone)} at the latest"
    if said != facts.told.get(job.job_id, ""):
        plan.tell[job.job_id] = said
