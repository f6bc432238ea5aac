"""Finds the jobs that have ended in a scheduler's lists: each is booked once, also one that vanished.

The scheduler shows jobs for some minutes after their end, with start and end. A job that ran at the last view and is
not shown any more has ended in between. The ledger remembers the jobs of the last view as JSON for a restart, without
the texts of users.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlalchemy import Connection, select

from offpeak.display import duration_text
from offpeak.errors import BadInput
from offpeak.ledger.marks import read_memory
from offpeak.ledger.tables import jobs
from offpeak.machines.node_sets import expand, fold
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerView

RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.ENDS})
"""States in which a job uses its nodes."""

AWAY_S = 300
"""How long Slurm shows ended jobs by default (MinJobAge)."""

MOST_WAITING = 20_000
"""The most jobs that wait while the ledger cannot be read; beyond this the oldest are given up."""

JobKey = tuple[str, int]
"""The job's number and start: a requeued job runs again under the same number."""


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended and is not booked yet, with start and end; first seen at `seen_s` [Unix s].

    `unseen` are the views between which it ended, if its end is unknown.
    """

    job: Job
    seen_s: int
    unseen: str = ""


@dataclass(frozen=True)
class JobWatch:
    """The jobs of a view at `at_s`: running ones by number, ended ones that wait to be booked, and booked ones."""

    at_s: int
    running: Mapping[str, Job] = field(default_factory=dict)
    waiting: Mapping[JobKey, EndedJob] = field(default_factory=dict)
    booked: frozenset[JobKey] = frozenset()


def job_key(job: Job) -> JobKey:
    """Return the key of this run of the job."""
    return job.job_id, job.start_s or 0


def after_view(before: JobWatch | None, view: SchedulerView) -> JobWatch:
    """Return the watch after one more view; `before` is None if no earlier one was saved."""
    before = before or JobWatch(view.at_s)
    running = {job.job_id: job for job in view.jobs if job.state in RUNS and has_run(job)}
    unclear = {job.job_id for job in view.jobs if job.state is JobState.OTHER}
    running |= {number: job for number, job in before.running.items() if number in unclear and number not in running}
    shown = {job_key(job): job for job in view.jobs if job.state is JobState.ENDED and has_run(job)}
    runs = {job_key(job) for job in running.values()}
    vanished = (job for job in before.running.values() if job_key(job) not in runs and job_key(job) not in shown)
    waiting = {key: ended for key, ended in before.waiting.items() if key not in runs}
    waiting |= {job_key(job): _unseen(job, before.at_s, view.at_s) for job in vanished}
    released = [
        part
        for number, job in running.items()
        if (earlier := before.running.get(number)) and (part := _released_part(earlier, job, view.at_s))
    ]
    waiting |= {job_key(ended.job): ended for ended in released}
    for key, job in shown.items():
        if key in before.booked:
            continue
        known = before.waiting.get(key)
        last = known.job if known else before.running.get(job.job_id)
        if last and job_key(last) == key and set(last.known_hosts) < set(job.known_hosts):
            # The scheduler may show the nodes of its start again.
            job = job._replace(hosts=last.hosts, nodes=last.nodes, cpus=last.cpus)
        end_s = max(job.start_s or 0, view.at_s if job.end_s is None else job.end_s)
        waiting[key] = EndedJob(job._replace(end_s=end_s), known.seen_s if known else view.at_s)
    return JobWatch(view.at_s, running, dict(list(waiting.items())[-MOST_WAITING:]), before.booked & shown.keys())


def jobs_to_book(ran: JobWatch, *, settle_s: float) -> tuple[EndedJob, ...]:
    """Return the jobs whose last readings are in the ledger by their age; after a clock went back at once."""
    return tuple(
        ended
        for ended in ran.waiting.values()
        if not 0 <= ran.at_s - max(ended.seen_s, ended.job.end_s or 0) < settle_s
    )


def after_booking(ran: JobWatch, booked: Iterable[EndedJob]) -> JobWatch:
    """Return the watch after these jobs were booked."""
    keys = {job_key(ended.job) for ended in booked}
    waiting = {key: ended for key, ended in ran.waiting.items() if key not in keys}
    return replace(ran, waiting=waiting, booked=ran.booked | keys)


def away_line(before: JobWatch | None, view: SchedulerView) -> str:
    """Return the warning about a long time without a view, "" if it was short."""
    if before is None or view.at_s - before.at_s < AWAY_S:
        return ""
    away = duration_text(view.at_s - before.at_s)
    lost = "jobs that began and ended then, and are shown no more, are in no account"
    return f"the scheduler was not read for {away}, or the clock was set forward: {lost}"


def has_run(job: Job) -> bool:
    """Whether the job has nodes or had them; pending and cancelled jobs may show a start too."""
    return bool(job.hosts) and job.start_s is not None


def _released_part(earlier: Job, job: Job, at_s: int) -> EndedJob | None:
    """Return the nodes that a running job has released since the earlier view as a job that has ended, if any."""
    kept, had = set(job.known_hosts), earlier.known_hosts
    gone = [node for node in had if node not in kept]
    if job_key(job) != job_key(earlier) or not gone or not kept <= set(had):
        return None
    part = earlier._replace(
        job_id=f"{job.job_id}-released{len(had)}",
        state=JobState.ENDED,
        nodes=len(gone),
        cpus=max(earlier.cpus - job.cpus, 0) or earlier.cpus * len(gone) // len(had),
        hosts=fold(gone),
        end_s=at_s,
    )
    return EndedJob(part, at_s)


def _unseen(job: Job, before_s: int, at_s: int) -> EndedJob:
    """Return a job that ended between two looks, in the middle of them, and not after its limit."""
    start_s = job.start_s or 0
    first_s, last_s = max(start_s, min(before_s, at_s)), max(start_s, at_s)
    if job.limit_s is not None:
        last_s = max(first_s, min(last_s, start_s + job.limit_s))
    job = job._replace(end_s=(first_s + last_s) // 2)
    return EndedJob(job, at_s, f"ended unseen within {last_s - first_s} s")


MEMORY_NAME = "jobs"
"""The name of the watch in the ledger."""
FIELDS_BEFORE = {"state_word": "native_state", "needs": "request"}
"""Fields of a job that a watch of an older version calls by another name; a watch keeps no request."""
SAVE_EVERY_S = 60
"""The least time between two writes."""


def is_worth_saving(kept: JobWatch | None, ran: JobWatch) -> bool:
    """Return whether the saved watch is old, and differs."""
    if kept is None or ran.at_s < kept.at_s:
        return True
    others = ran.running.keys() != kept.running.keys() or ran.waiting.keys() != kept.waiting.keys()
    return others and ran.at_s - kept.at_s >= SAVE_EVERY_S


def job_watch_json(ran: JobWatch) -> str:
    """Return the watch as text for `parse_job_watch`."""
    waiting = [[*_without_texts(ended.job), ended.seen_s, ended.unseen] for ended in ran.waiting.values()]
    running = [_without_texts(job) for job in ran.running.values()]
    kept = {
        "fields": Job._fields,
        "at_s": ran.at_s,
        "running": running,
        "waiting": waiting,
        "booked": sorted(ran.booked),
    }
    return json.dumps(kept, separators=(",", ":"))


def parse_job_watch(text: str | None) -> JobWatch | None:
    """Return the watch of `job_watch_json`; None for no text, and for the text of another version of the program."""
    try:
        kept = json.loads(text or "null")
        names = tuple(FIELDS_BEFORE.get(name, name) for name in kept["fields"]) if kept else ()
        missing = Job._fields[len(names) :]
        if not names or (*names, *missing) != Job._fields or not Job._field_defaults.keys() >= set(missing):
            return None
        running = {job.job_id: job for job in map(_parse_job, kept["running"])}
        ended = [EndedJob(_parse_job(job), seen_s, unseen) for *job, seen_s, unseen in kept["waiting"]]
        booked = frozenset((number, start_s) for number, start_s in kept["booked"])
    except (ValueError, KeyError, TypeError):
        return None
    return replace(
        JobWatch(kept["at_s"], running), waiting={(e.job.job_id, e.job.start_s or 0): e for e in ended}, booked=booked
    )


def _without_texts(job: Job) -> Job:
    return job._replace(comment="", reason="", request=None, reservation="", qos="", native_state="")


def _parse_job(row: list[object]) -> Job:
    job = Job(*row)  # type: ignore[arg-type]
    return job._replace(state=JobState(job.state), partitions=tuple(job.partitions), request=None)


JobSpan = tuple[float, float]
"""Start and end [Unix s]; the end of a running job is infinity."""


def find_node_runs(connection: Connection, span: TimeRange) -> Mapping[str, Sequence[JobSpan]]:
    """Return the runs of jobs that touch the time, by node: of the jobs in the ledger, and of those that it remembers.

    It remembers jobs that run, and that have ended and are not booked yet.
    """
    runs: dict[str, list[JobSpan]] = defaultdict(list)
    within = (jobs.c.ended_unix_s > span.from_unix_s) & (jobs.c.started_unix_s < span.until_unix_s)
    booked = connection.execute(select(jobs.c.nodes, jobs.c.started_unix_s, jobs.c.ended_unix_s).where(within))
    found: list[tuple[str, float, float]] = [(row[0], row[1], row[2]) for row in booked]
    if (ran := parse_job_watch(read_memory(connection, MEMORY_NAME))) is not None:
        for job in (*ran.running.values(), *(ended.job for ended in ran.waiting.values())):
            if job.start_s is not None:
                end_s = math.inf if job.job_id in ran.running else job.end_s or ran.at_s
                found.append((job.hosts, job.start_s, end_s))
    for nodes, from_unix_s, until_unix_s in found:
        if from_unix_s < span.until_unix_s and until_unix_s > span.from_unix_s:
            for node in _expand(nodes):
                runs[node].append((from_unix_s, until_unix_s))
    return runs


@lru_cache(maxsize=4096)
def _expand(nodes: str) -> tuple[str, ...]:
    try:
        return expand(nodes)
    except BadInput:
        return ()
