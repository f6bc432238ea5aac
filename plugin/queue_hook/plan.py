"""The queue hook: from all that is known of the queue to what is written, remembered and told. Pure."""

from offpeak.ledger.rows import JobMark
from plugin.queue_hook.begins import plan_begins
from plugin.queue_hook.choice import NOW
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.lines import pending, standings_of
from plugin.queue_hook.queue_plan import QueuePlan
from plugin.queue_hook.ranks import plan_ranks, stale_marks
from plugin.queue_hook.standing import marks_by_job
from plugin.scheduler.job import JobState

DAY_S = 86_400


def plan_queue(facts: QueueFacts, rules: QueueRules) -> QueuePlan:
    """Return what is to be done with the queue now; nothing is written where all is as wanted.

    Begin times come first: a job that is to wait leaves its window, one that is let go joins it.
    """
    marked = marks_by_job(facts.marks, facts.jobs)
    waiting = pending(facts.jobs)
    plain = [job for job in waiting if job.plain]
    begins = plan_begins(plain, marked, facts=facts, rules=rules)
    let_go = {job_id for job_id, begin_s in begins.begin_s.items() if begin_s == NOW}
    startable = [job._replace(begin_s=None) if job.job_id in let_go else job for job in waiting]
    standings = standings_of(startable, marked, facts)
    ranks = plan_ranks(standings, marked, begins.later, facts=facts, rules=rules)
    return QueuePlan(
        rank=ranks.rank,
        begin_s=begins.begin_s,
        tell=begins.tell,
        remember=(*begins.remember, *ranks.remember),
        seen=(*begins.seen, *ranks.seen),
        forget=(*_of_gone(facts), *stale_marks(standings, marked, ranks.rank)),
        decisions=(*begins.decisions, *ranks.decisions),
    )


def _of_gone(facts: QueueFacts) -> list[JobMark]:
    """Return the marks of jobs that have ended; of jobs that are not listed any more those that are a day old."""
    numbers = {mark.job for mark in facts.marks}
    state = {(job.job_id, float(job.submit_s)): job.state for job in facts.jobs if job.job_id in numbers}
    return [
        mark
        for mark in facts.marks
        if (found := state.get((mark.job, mark.submitted_unix_s))) is JobState.ENDED
        or (found is None and mark.at_unix_s < facts.now_s - DAY_S)
    ]
