"""Since when later submissions have been passing a waiting job: the bound on starvation, as the simulator has it.

See docs/decisions/0003-starvation-bound.md. The scheduler forgets jobs that have ended, so the first passing is marked.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from offpeak.ledger.rows import JobMark
from plugin.queue_hook.facts import Competition, competition, number_of
from plugin.queue_hook.standing import PASSED, Marked, Standing
from plugin.scheduler.job import Job, JobState

HAS_STARTED = frozenset({JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS, JobState.ENDED})

Started = list[tuple[int, int, int]]
"""Submission and number of each job that has started, and when it did."""


def started_in(jobs: Iterable[Job]) -> dict[Competition, Started]:
    """Return the jobs of each competition that have started, by submission; what was cancelled before is none."""
    found: dict[Competition, Started] = {}
    for job in jobs:
        if job.state in HAS_STARTED and job.start_s is not None and job.hosts:
            found.setdefault(competition(job), []).append((job.submit_s, number_of(job.job_id), job.start_s))
    for started in found.values():
        started.sort()
    return found


def passed_since(each: Standing, started: Started, marked: Marked) -> int | None:
    """Return when a later submission was first started while this job could have been; None if none was."""
    if not started and PASSED not in marked:
        return None
    job = each.job
    waiting_s = max(job.submit_s, job.begin_s or 0)
    later = started[bisect_right(started, (job.submit_s, each.number, 1 << 62)) :]
    seen = [start_s for _, _, start_s in later if start_s >= waiting_s]
    if PASSED in marked:
        seen.append(marked[PASSED].was)
    return min(seen, default=None)


def marks_of_passed(since_s: Mapping[str, int], window: Iterable[Standing], now_s: int) -> list[JobMark]:
    """Return what is to be remembered of jobs that were passed."""
    jobs = [each.job for each in window if each.job.job_id in since_s]
    return [JobMark(job.job_id, job.submit_s, PASSED, since_s[job.job_id], since_s[job.job_id], now_s) for job in jobs]
