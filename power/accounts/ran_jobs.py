"""Which jobs have ended, from what a scheduler shows time after time: each is booked once, those that vanished too.

The scheduler shows jobs for some minutes after their end, with start and end. One that ran at the last look and is not
shown any more ended in between. Only values: what is kept over a restart is `kept.py`'s.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import SchedulerView

RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS})
"""States in which a job uses its nodes."""

AWAY_S = 300
"""Slurm shows ended jobs for so long, unless MinJobAge says otherwise."""

MOST_WAITING = 20_000
"""Jobs that wait for a ledger that cannot be read: beyond this the oldest are given up."""

Key = tuple[str, int]
"""The job's number and start: one that is requeued runs again under the same number."""


@dataclass(frozen=True)
class Ended:
    """A job that has ended and is not booked yet, with start and end; first seen to be so at `seen_s` [Unix s].

    `unseen` says between which looks it ended where nobody was told when.
    """

    job: Job
    seen_s: int
    unseen: str = ""


@dataclass(frozen=True)
class Ran:
    """What is known after a look at `at_s`: who runs, by job number; who waits to be booked; who is, of those shown."""

    at_s: int
    running: Mapping[str, Job] = field(default_factory=dict)
    waiting: Mapping[Key, Ended] = field(default_factory=dict)
    booked: frozenset[Key] = frozenset()


def key_of(job: Job) -> Key:
    """Return what tells this run of the job from all others."""
    return job.job_id, job.start_s or 0


def after_view(before: Ran | None, view: SchedulerView) -> Ran:
    """Return what is known after one more look; `before` is None where nothing was kept of an earlier one."""
    before = before or Ran(view.at_s)
    running = {job.job_id: job for job in view.jobs if job.state in RUNS and _has_run(job)}
    unclear = {job.job_id for job in view.jobs if job.state is JobState.OTHER}
    running |= {number: job for number, job in before.running.items() if number in unclear and number not in running}
    shown = {key_of(job): job for job in view.jobs if job.state is JobState.ENDED and _has_run(job)}
    runs = {key_of(job) for job in running.values()}
    vanished = (job for job in before.running.values() if key_of(job) not in runs and key_of(job) not in shown)
    waiting = {key: ended for key, ended in before.waiting.items() if key not in runs}
    waiting |= {key_of(job): _unseen(job, before.at_s, view.at_s) for job in vanished}
    waiting |= {
        key: Ended(_with_end(job, view.at_s), _since(before, key, view.at_s))
        for key, job in shown.items()
        if key not in before.booked
    }
    return Ran(view.at_s, running, _latest(waiting), before.booked & shown.keys())


def due(ran: Ran, *, settle_s: float) -> tuple[Ended, ...]:
    """Return who ended so long ago that the last readings are in the ledger; after a clock went back at once."""
    return tuple(
        ended
        for ended in ran.waiting.values()
        if not 0 <= ran.at_s - max(ended.seen_s, ended.job.end_s or 0) < settle_s
    )


def after_booking(ran: Ran, booked: Iterable[Ended]) -> Ran:
    """Return what is known once these are in the ledger."""
    keys = {key_of(ended.job) for ended in booked}
    waiting = {key: ended for key, ended in ran.waiting.items() if key not in keys}
    return replace(ran, waiting=waiting, booked=ran.booked | keys)


def away_line(before: Ran | None, view: SchedulerView) -> str:
    """Return what is to be said of the time in which nobody looked, "" if it was short."""
    if before is None or view.at_s - before.at_s < AWAY_S:
        return ""
    minutes = (view.at_s - before.at_s) // 60
    return f"nobody looked for {minutes} min: jobs that began and ended then, and are shown no more, are in no account"


def _latest(waiting: dict[Key, Ended]) -> dict[Key, Ended]:
    return dict(list(waiting.items())[-MOST_WAITING:])


def _has_run(job: Job) -> bool:
    return bool(job.hosts) and job.start_s is not None


def _since(before: Ran, key: Key, at_s: int) -> int:
    known = before.waiting.get(key)
    return known.seen_s if known else at_s


def _with_end(job: Job, at_s: int) -> Job:
    start_s = job.start_s or 0
    return job._replace(end_s=max(start_s, at_s if job.end_s is None else job.end_s))


def _unseen(job: Job, before_s: int, at_s: int) -> Ended:
    """Return a job that ended between two looks, in the middle of them, and not after its limit."""
    start_s = job.start_s or 0
    first_s, last_s = max(start_s, min(before_s, at_s)), max(start_s, at_s)
    if job.limit_s is not None:
        last_s = max(first_s, min(last_s, start_s + job.limit_s))
    job = job._replace(end_s=(first_s + last_s) // 2)
    return Ended(job, at_s, f"ended unseen within {last_s - first_s} s")
