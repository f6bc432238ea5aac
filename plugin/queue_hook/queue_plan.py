"""The entry of the queue hook: from all that is known of the queue to what is written, remembered and shown.

`restore_plan` undoes everything that we changed of jobs that still wait, and gives the site its own order back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.model.constants import DAY_S
from plugin.queue_hook.facts import QueueFacts, QueueRules, job_number
from plugin.queue_hook.positions import (
    BEGIN,
    BY_ADMIN,
    RANK,
    is_ours,
    marks_by_job,
    pending_jobs,
    queue_position,
    queue_positions,
)
from plugin.queue_hook.reorder import plan_ranks, stale_marks
from plugin.queue_hook.start_times import NOW, plan_begin_times
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking


@dataclass(frozen=True)
class QueuePlan:
    """What is to be written, by job: `rank` for Scheduler.rank, `begin_s` for defer, `tell` for tell.

    `remember` are the marks of what is written, which must be on the disk before it is. `seen` are marks of jobs that
    are not written: an admin's hand, a job that was passed; without them it is found again, or forgotten, at a restart.
    `forget` say nothing any more. `decisions` tell of each job that is moved, delayed, let go or left alone, and why.
    """

    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    remember: tuple[JobMark, ...] = ()
    seen: tuple[JobMark, ...] = ()
    forget: tuple[JobMark, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether the scheduler is told nothing."""
        return not (self.rank or self.begin_s or self.tell)


def plan_queue(facts: QueueFacts, rules: QueueRules) -> QueuePlan:
    """Return what is to be done with the queue now; nothing is written where all is as wanted.

    Begin times come first: a job that is to wait leaves its window, one that is let go joins it.
    """
    marked = marks_by_job(facts.marks, facts.jobs)
    waiting = pending_jobs(facts.jobs)
    plain = [job for job in waiting if job.plain]
    begins = plan_begin_times(plain, marked, facts=facts, rules=rules)
    let_go = {job_id for job_id, begin_s in begins.begin_s.items() if begin_s == NOW}
    startable = [job._replace(begin_s=None) if job.job_id in let_go else job for job in waiting]
    standings = queue_positions(startable, marked, facts)
    ranks = plan_ranks(standings, marked, begins.later, facts=facts, rules=rules)
    return QueuePlan(
        rank=ranks.rank,
        begin_s=begins.begin_s,
        tell=begins.tell,
        remember=(*begins.remember, *ranks.remember),
        seen=(*begins.seen, *ranks.seen),
        forget=(*_marks_of_ended_jobs(facts), *stale_marks(standings, marked, ranks.rank)),
        decisions=(*begins.decisions, *ranks.decisions),
    )


def _marks_of_ended_jobs(facts: QueueFacts) -> list[JobMark]:
    """Return the marks of jobs that have ended; of jobs that are not listed any more those that are a day old."""
    numbers = {mark.job for mark in facts.marks}
    state = {(job.job_id, float(job.submit_s)): job.state for job in facts.jobs if job.job_id in numbers}
    return [
        mark
        for mark in facts.marks
        if (found := state.get((mark.job, mark.submitted_unix_s))) is JobState.ENDED
        or (found is None and mark.at_unix_s < facts.now_s - DAY_S)
    ]


def restore_plan(jobs: Sequence[Job], marks: Iterable[JobMark], *, ranking: Ranking) -> QueuePlan:
    """Return what to write so that no pending job stands as we put it; what an admin set since is left alone."""
    marked = marks_by_job(marks, jobs)
    rank, begin_s = {}, {}
    for job in jobs:
        of_job = marked.get(job.job_id)
        if of_job is None or job.state is not JobState.PENDING:
            continue
        standing = queue_position(job, job_number(job.job_id), of_job, ranking)
        if standing.share and RANK + BY_ADMIN not in of_job:
            rank[job.job_id] = of_job[RANK].was
        if job.begin_s and is_ours(of_job, BEGIN, job.begin_s) and BEGIN + BY_ADMIN not in of_job:
            begin_s[job.job_id] = of_job[BEGIN].was
    return QueuePlan(rank, begin_s)
