"""What gives the site its own order back: everything that we changed of jobs that still wait is undone."""

from collections.abc import Iterable, Sequence

from offpeak.ledger.rows import JobMark
from plugin.queue_hook.facts import number_of
from plugin.queue_hook.queue_plan import QueuePlan
from plugin.queue_hook.standing import BEGIN, BY_HAND, RANK, marks_by_job, ours, rank_standing
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking


def restore_plan(jobs: Sequence[Job], marks: Iterable[JobMark], *, ranking: Ranking) -> QueuePlan:
    """Return what to write so that no pending job stands as we put it; what an admin set since is left alone."""
    marked = marks_by_job(marks, jobs)
    rank, begin_s = {}, {}
    for job in jobs:
        of_job = marked.get(job.job_id)
        if of_job is None or job.state is not JobState.PENDING:
            continue
        standing = rank_standing(job, number_of(job.job_id), of_job, ranking)
        if standing.share and RANK + BY_HAND not in of_job:
            rank[job.job_id] = of_job[RANK].was
        if job.begin_s and ours(of_job, BEGIN, job.begin_s) and BEGIN + BY_HAND not in of_job:
            begin_s[job.job_id] = of_job[BEGIN].was
    return QueuePlan(rank, begin_s)
