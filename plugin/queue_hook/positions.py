"""The position of each pending job in the site's own order, and the marks by which our changes are known again.

The site's order is the order without our changes, but with those of admins.

A mark is written before the change that it records, so a crash between the two leaves a mark of a change that never
happened. The second mark of a job that is changed again therefore keeps the value from before the first.

Slurm's priority/basic gives each new job one less than the lowest priority so far, so priorities fall with the job
numbers. A job that breaks this order was changed by an admin, or was held and released: the hook leaves both alone.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from offpeak.ledger.rows import JobMark
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.port import Ranking

RANK, BEGIN, PASSED, SHIFT = "rank", "begin", "passed", "shift "
BEFORE, BY_ADMIN = " before", " by hand"
BY_CAP = f"{BEGIN} by cap"
"""The mark of a begin time that a cap on power imposes: `to` is the end of the cap, 0 once the time is another one.
`was` is not 0 if an event has stopped the running job: it goes on whatever later hours cost."""
EXPECTED_SAVING = "expected_saving"
"""The input of a decision that moves a job: the money saved if it runs as expected then, compared with now."""
TASKS = "tasks"
"""The input with the number of waiting tasks of an array, whose saving is that of all of them."""
LEAST_PRIORITY = 1
"""Slurm shows no priority below this for a job that may start; lower ones look the same."""


def expected_saving(inputs: Mapping[str, object], tasks: int) -> float | None:
    """Return what a decision expects to save with so many tasks of its array; None if it names no saving."""
    saving, of_tasks = inputs.get(EXPECTED_SAVING), inputs.get(TASKS, tasks)
    if not isinstance(saving, float | int) or not isinstance(of_tasks, float | int):
        return None
    return float(saving * tasks / of_tasks)


class JobMarks(dict[str, JobMark]):
    """The marks of one job, by kind."""

    def is_ours(self, kind: str, value: int) -> bool | None:
        """Return whether we wrote it: False for the site's own value, also without a mark; None for somebody else's."""
        mark = self.get(kind)
        if mark is None or value == mark.was:
            return False
        before = self.get(kind + BEFORE)
        return True if value == mark.to or (before is not None and value == before.to) else None

    def of_change(self, job: Job, kind: str, *, value: int, to: int, now_s: int) -> tuple[JobMark, ...]:
        """Return the marks to write before `value` of the job, the site's or offpeak's, becomes `to`."""
        if not self.is_ours(kind, value):
            return (JobMark(job.job_id, job.submit_s, kind, value, to, now_s),)
        was = self[kind].was
        before = JobMark(job.job_id, job.submit_s, kind + BEFORE, was, value, now_s)
        return (before, JobMark(job.job_id, job.submit_s, kind, was, to, now_s))

    @staticmethod
    def of_admin(job: Job, kind: str, value: int, now_s: int) -> JobMark:
        """Return the mark of a value that somebody else set."""
        return JobMark(job.job_id, job.submit_s, kind + BY_ADMIN, value, value, now_s)


NO_MARKS = JobMarks()

MarksByJob = Mapping[str, JobMarks]
"""The marks of each job that has any, by job."""


def marks_by_job(marks: Iterable[JobMark], jobs: Iterable[Job]) -> MarksByJob:
    """Return the marks of each of the jobs that has any, without marks of an earlier job of the same number."""
    marks = tuple(marks)
    numbers = {mark.job for mark in marks}
    submitted_s = {job.job_id: job.submit_s for job in jobs if job.job_id in numbers}
    found: dict[str, JobMarks] = {}
    for mark in marks:
        if submitted_s.get(mark.job) == mark.submitted_unix_s:
            found.setdefault(mark.job, JobMarks())[mark.kind] = mark
    return found


class QueuePosition(NamedTuple):
    """The position of a job: `site_priority` is its priority without offpeak, `added` what offpeak added to it.

    `user_offset` is the owner's own offset. `is_foreign`: somebody else set the value after us. `has_offset`: the owner
    gave the job an offset, which would be lost when the priority is set, or which hides how low the priority is.
    """

    job: Job
    number: int
    site_priority: int
    added: int
    user_offset: int
    is_foreign: bool
    has_offset: bool


def job_number(job_id: str) -> int:
    """Return the number with which a job's name begins, 0 if it begins with none."""
    if job_id.isdecimal():
        return int(job_id)
    digits = len(job_id) - len(job_id.lstrip("0123456789"))
    return int(job_id[:digits] or 0)


def queue_position(job: Job, marks: JobMarks, ranking: Ranking) -> QueuePosition:
    """Return the position of a pending job."""
    number, by_value = job_number(job.job_id), ranking is Ranking.VALUE
    if by_value and not marks:
        return QueuePosition(job, number, job.priority, 0, 0, is_foreign=False, has_offset=job.offset != 0)
    value = job.priority if by_value else job.offset
    ours = marks.is_ours(RANK, value)
    was = marks[RANK].was if ours else value
    added = value - was
    site, is_foreign = job.priority - added, ours is None
    if by_value:
        return QueuePosition(job, number, site, added, 0, is_foreign, has_offset=not ours and job.offset != 0)
    if ranking is Ranking.TERM:
        return QueuePosition(job, number, site, added, was, is_foreign, has_offset=False)
    has_offset = was < 0 and site <= LEAST_PRIORITY
    return QueuePosition(job, number, max(LEAST_PRIORITY, site), added, was, is_foreign, has_offset=has_offset)


@dataclass(frozen=True)
class QueuePositions:
    """All pending jobs, and those whose priority an admin set. `new_overrides` have no mark of that yet."""

    all: Sequence[QueuePosition]
    admin_overrides: frozenset[str]
    new_overrides: Sequence[QueuePosition]


def queue_positions(jobs: Iterable[Job], marks: MarksByJob, facts: QueueFacts) -> QueuePositions:
    """Return the positions of the pending jobs. The priority that an admin set counts as the site's."""
    found, marked = [], set()
    for job in jobs:
        of_job = marks.get(job.job_id, NO_MARKS)
        found.append(queue_position(job, of_job, facts.ranking))
        if of_job and RANK + BY_ADMIN in of_job:
            marked.add(job.job_id)
    seen = {position.job.job_id for position in found if position.is_foreign or position.job.priority_is_set}
    if facts.ranking is Ranking.VALUE:
        others = marked | seen
        plain = [position for position in found if position.job.plain and position.job.job_id not in others]
        seen |= {override.job.job_id for override in find_admin_overrides(plain) if not override.added}
    overrides, unmarked = frozenset(marked | seen), seen - marked
    return QueuePositions(
        [
            position._replace(site_priority=position.job.priority, added=0)
            if position.job.job_id in overrides
            else position
            for position in found
        ],
        overrides,
        [position for position in found if position.job.job_id in unmarked and position.job.plain],
    )


def find_admin_overrides(positions: Sequence[QueuePosition]) -> list[QueuePosition]:
    """Return the fewest jobs without which priorities, less the owners' offsets, never rise with job numbers."""
    # From the newest job back: if two jobs contradict each other, the higher one was raised.
    in_order = sorted(positions, key=attrgetter("number"), reverse=True)
    kept = set(_longest_rise([position.site_priority - position.job.offset for position in in_order]))
    return [position for at, position in enumerate(in_order) if at not in kept]


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Return the indices of a longest subsequence that never falls."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at_end[length : length + 1] = [at]
    found = []
    at = at_end[-1] if at_end else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found
