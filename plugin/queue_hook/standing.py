"""What a job's value is by the site, beside what we wrote: our own changes undone in thought, an admin's hand seen.

A mark is written before the change that it tells of, so a crash between the two leaves a mark of what never happened.
Of a job that is changed again a second mark therefore keeps what was written before.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from offpeak.ledger.rows import JobMark
from plugin.scheduler.job import Job
from plugin.scheduler.port import Ranking

RANK, BEGIN, PASSED = "rank", "begin", "passed"
BEFORE, BY_HAND = " before", " by hand"
LEAST = 1
"""No scheduler shows a priority below this of a job that may start: what lies underneath cannot be seen."""

Marked = Mapping[str, JobMark]
"""The marks of one job, by kind."""
NO_MARKS: Marked = {}

MarkedJobs = Mapping[str, Marked]
"""The marks of every job that has any, by job."""


class Standing(NamedTuple):
    """Where a job stands: `site` is its priority without us, `share` what we added.

    `own` is the user's own offset. `strange`: somebody set it since. `niced`: an own offset, which would be lost when
    the priority is set, or for which the priority does not show how low the job stands.
    """

    job: Job
    number: int
    site: int
    share: int
    own: int
    strange: bool
    niced: bool


def marks_by_job(marks: Iterable[JobMark], jobs: Iterable[Job]) -> MarkedJobs:
    """Return the marks of each of the jobs that has any; those of an earlier job of the same number are left out."""
    marks = tuple(marks)
    numbers = {mark.job for mark in marks}
    submitted_s = {job.job_id: job.submit_s for job in jobs if job.job_id in numbers}
    found: dict[str, dict[str, JobMark]] = {}
    for mark in marks:
        if submitted_s.get(mark.job) == mark.submitted_unix_s:
            found.setdefault(mark.job, {})[mark.kind] = mark
    return found


def ours(marked: Marked, kind: str, value: int) -> bool | None:
    """Return whether we wrote that value; None where it is neither ours nor, as all is without a mark, the site's."""
    mark = marked.get(kind)
    if mark is None or value == mark.was:
        return False
    before = marked.get(kind + BEFORE)
    return True if value == mark.to or (before is not None and value == before.to) else None


def rank_standing(job: Job, number: int, marked: Marked, ranking: Ranking) -> Standing:
    """Return where a pending job stands."""
    if ranking is Ranking.VALUE and not marked:
        return Standing(job, number, job.priority, 0, 0, False, job.offset != 0)
    value = job.priority if ranking is Ranking.VALUE else job.offset
    written = ours(marked, RANK, value)
    was = marked[RANK].was if written else value
    site = job.priority - (value - was)
    if ranking is Ranking.VALUE:
        return Standing(job, number, site, value - was, 0, written is None, not written and job.offset != 0)
    return Standing(job, number, max(LEAST, site), value - was, was, written is None, was < 0 and site <= LEAST)


def marks_of_change(job: Job, marked: Marked, kind: str, *, value: int, to: int, now_s: int) -> tuple[JobMark, ...]:
    """Return what is to be remembered before `value` of a job, the site's or ours, becomes `to`."""
    if not ours(marked, kind, value):
        return (JobMark(job.job_id, job.submit_s, kind, value, to, now_s),)
    was = marked[kind].was
    before = JobMark(job.job_id, job.submit_s, kind + BEFORE, was, value, now_s)
    return (before, JobMark(job.job_id, job.submit_s, kind, was, to, now_s))


def mark_of_hand(job: Job, kind: str, value: int, now_s: int) -> JobMark:
    """Return what is to be remembered of a value that somebody else set."""
    return JobMark(job.job_id, job.submit_s, kind + BY_HAND, value, value, now_s)
