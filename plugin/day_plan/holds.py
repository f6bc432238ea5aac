"""Which jobs are not to start before when: begin times that somebody set, and cheap hours for which owners let wait."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from plugin.day_plan.pools import run_s_of
from plugin.day_plan.sight import Sight
from plugin.queue_hook.begins import all_starts
from plugin.queue_hook.choice import WORTH_IT, StartsOf, choose_begin
from plugin.queue_hook.consent import consent_of
from plugin.queue_hook.latest import leeway
from plugin.queue_hook.standing import BEGIN, NO_MARKS, Marked, marks_by_job, ours
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class Hold:
    """Not before `begin_s` [Unix s], 0 for at any time; `for_price` if we chose it, with the latest start then."""

    begin_s: int = 0
    for_price: bool = False
    latest_start_s: int | None = None


def holds_of(sight: Sight, jobs: Iterable[Job]) -> Mapping[str, Hold]:
    """Return the hold of each job: what the queue hook would choose for it alone."""
    facts = sight.queue
    marked, starts_of = marks_by_job(facts.marks, facts.jobs), all_starts(facts)
    return {job.job_id: _hold(job, sight, marked.get(job.job_id, NO_MARKS), starts_of) for job in jobs}


def _hold(job: Job, sight: Sight, marks: Marked, starts_of: StartsOf) -> Hold:
    facts, rules = sight.queue, sight.rules
    held_s = job.begin_s if job.begin_s and job.begin_s > facts.now_s else 0
    consent = consent_of(job.comment, rules.zone)
    mine = bool(held_s) and BEGIN in marks and ours(marks, BEGIN, held_s) is True
    choice = None
    if consent.allows_delay or mine:
        choice = choose_begin(job, consent, marks, facts=facts, rules=rules, starts_of=starts_of)
    begin_s = held_s if choice is None or choice.begin_s is None else choice.begin_s
    room = leeway(job, consent, facts, rules)
    for_price = begin_s > facts.now_s and (mine or begin_s != held_s)
    return Hold(begin_s, for_price, room.start_s if room else None)


def gains(sight: Sight, starts_of: StartsOf, job: Job, *, held_start_s: int, free_start_s: int) -> bool:
    """Whether a start is so much cheaper than another that it is worth the wait."""
    run_s = run_s_of(job, sight.queue)
    starts = starts_of(run_s) if run_s else None
    if starts is None:
        return False
    held, free = starts.at(held_start_s).per_watt, starts.at(free_start_s).per_watt
    return free - held > WORTH_IT * abs(free)
