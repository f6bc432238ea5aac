"""The position of each pending job in the site's own order, without our changes and with those of admins.

A mark is written before the change that it records, so a crash between the two leaves a mark of a change that never
happened. The second mark of a job that is changed again therefore keeps the value that was there before.

Slurm's priority/basic gives each new job one less than the lowest priority so far, so priorities fall with the job
numbers. A job that breaks this order was changed by an admin, or was held and released: both are left alone.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from offpeak.ledger.rows import JobMark
from plugin.queue_hook.facts import QueueFacts, ResourcePool, job_number, resource_pool
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking

RANK, BEGIN, PASSED = "rank", "begin", "passed"
BEFORE, BY_ADMIN = " before", " by hand"
LEAST_PRIORITY = 1
"""No scheduler shows a priority below this of a job that may start: what lies underneath cannot be seen."""

JobMarks = Mapping[str, JobMark]
"""The marks of one job, by kind."""
NO_MARKS: JobMarks = {}

MarksByJob = Mapping[str, JobMarks]
"""The marks of every job that has any, by job."""


class QueuePosition(NamedTuple):
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


def marks_by_job(marks: Iterable[JobMark], jobs: Iterable[Job]) -> MarksByJob:
    """Return the marks of each of the jobs that has any; those of an earlier job of the same number are left out."""
    marks = tuple(marks)
    numbers = {mark.job for mark in marks}
    submitted_s = {job.job_id: job.submit_s for job in jobs if job.job_id in numbers}
    found: dict[str, dict[str, JobMark]] = {}
    for mark in marks:
        if submitted_s.get(mark.job) == mark.submitted_unix_s:
            found.setdefault(mark.job, {})[mark.kind] = mark
    return found


def is_ours(marked: JobMarks, kind: str, value: int) -> bool | None:
    """Return whether we wrote that value; None where it is neither ours nor, as all is without a mark, the site's."""
    mark = marked.get(kind)
    if mark is None or value == mark.was:
        return False
    before = marked.get(kind + BEFORE)
    return True if value == mark.to or (before is not None and value == before.to) else None


def queue_position(job: Job, number: int, marked: JobMarks, ranking: Ranking) -> QueuePosition:
    """Return where a pending job stands."""
    if ranking is Ranking.VALUE and not marked:
        return QueuePosition(
            job=job, number=number, site=job.priority, share=0, own=0, strange=False, niced=job.offset != 0
        )
    value = job.priority if ranking is Ranking.VALUE else job.offset
    written = is_ours(marked, RANK, value)
    was = marked[RANK].was if written else value
    site = job.priority - (value - was)
    if ranking is Ranking.VALUE:
        return QueuePosition(
            job=job,
            number=number,
            site=site,
            share=value - was,
            own=0,
            strange=written is None,
            niced=not written and job.offset != 0,
        )
    return QueuePosition(
        job=job,
        number=number,
        site=max(LEAST_PRIORITY, site),
        share=value - was,
        own=was,
        strange=written is None,
        niced=was < 0 and site <= LEAST_PRIORITY,
    )


def change_marks(job: Job, marked: JobMarks, kind: str, *, value: int, to: int, now_s: int) -> tuple[JobMark, ...]:
    """Return what is to be remembered before `value` of a job, the site's or ours, becomes `to`."""
    if not is_ours(marked, kind, value):
        return (JobMark(job.job_id, job.submit_s, kind, value, to, now_s),)
    was = marked[kind].was
    before = JobMark(job.job_id, job.submit_s, kind + BEFORE, was, value, now_s)
    return (before, JobMark(job.job_id, job.submit_s, kind, was, to, now_s))


def admin_mark(job: Job, kind: str, value: int, now_s: int) -> JobMark:
    """Return what is to be remembered of a value that somebody else set."""
    return JobMark(job.job_id, job.submit_s, kind + BY_ADMIN, value, value, now_s)


def find_admin_overrides(standings: Sequence[QueuePosition]) -> list[QueuePosition]:
    """Return the fewest jobs without which the values, less the owners' offsets, never rise with the job numbers."""
    # From the newest job back: of two that contradict each other the one that stands higher was raised by somebody.
    in_order = sorted(standings, key=attrgetter("number"), reverse=True)
    kept = set(_longest_rise([each.site - each.job.offset for each in in_order]))
    return [each for at, each in enumerate(in_order) if at not in kept]


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest part of the values that never falls."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at_end[length : length + 1] = [at]
    return _backtrack(at_end[-1] if at_end else -1, before)


def _backtrack(at: int, before: Sequence[int]) -> list[int]:
    found = []
    while at >= 0:
        found.append(at)
        at = before[at]
    return found


@dataclass(frozen=True)
class QueuePositions:
    """All pending jobs, and which of them somebody set by hand; of `new_hands` that is not marked yet."""

    all: Sequence[QueuePosition]
    by_hand: frozenset[str]
    new_hands: Sequence[QueuePosition]


def queue_positions(jobs: Iterable[Job], marked: MarksByJob, facts: QueueFacts) -> QueuePositions:
    """Return where every pending job stands; where one was set by hand its value is what it has."""
    found, noted = [], set()
    for job in jobs:
        marks = marked.get(job.job_id, NO_MARKS)
        found.append(queue_position(job, job_number(job.job_id), marks, facts.ranking))
        if marks and RANK + BY_ADMIN in marks:
            noted.add(job.job_id)
    seen = {each.job.job_id for each in found if each.strange} | facts.set_by_hand
    if facts.ranking is Ranking.VALUE:
        others = noted | seen
        plain = [each for each in found if each.job.plain and each.job.job_id not in others]
        seen |= {each.job.job_id for each in find_admin_overrides(plain) if not each.share}
    by_hand = frozenset(noted | seen)
    unnoted = seen - noted
    new = [each for each in found if each.job.job_id in unnoted and each.job.plain]
    return QueuePositions(
        [_with_admin_value(each) if each.job.job_id in by_hand else each for each in found], by_hand, new
    )


def _with_admin_value(each: QueuePosition) -> QueuePosition:
    return each._replace(site=each.job.priority, share=0)


def pending_jobs(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that wait for their turn; those that somebody holds are none of them."""
    return [job for job in jobs if job.state is JobState.PENDING]


def group_by_pool(
    standings: Sequence[QueuePosition], *, now_s: int, later: Collection[str]
) -> dict[ResourcePool, list[QueuePosition]]:
    """Return the plain jobs of each competition that could start now, in the site's order."""
    lines: dict[ResourcePool, list[QueuePosition]] = {}
    for each in standings:
        job = each.job
        if job.plain and job.job_id not in later and (job.begin_s is None or job.begin_s <= now_s):
            lines.setdefault(resource_pool(job), []).append(each)
    for line in lines.values():
        line.sort(key=attrgetter("number"))
        line.sort(key=attrgetter("site"), reverse=True)
    return lines
