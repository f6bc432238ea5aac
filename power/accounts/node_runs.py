"""When which node had a job: by the jobs in the ledger, and by those that it remembers as running or not booked yet."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from sqlalchemy import Connection, select

from offpeak.errors import BadInput
from offpeak.ledger.marks import read_memory
from offpeak.ledger.tables import jobs
from offpeak.machines.node_sets import expand
from offpeak.model.local_time import TimeRange
from power.accounts.kept import NAME, ran_of

Run = tuple[float, float]
"""From and until [Unix s]; who runs still has no end, which is infinity."""


def node_runs(connection: Connection, span: TimeRange) -> Mapping[str, Sequence[Run]]:
    """Return the runs of jobs that touch the time, by node."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for nodes, from_unix_s, until_unix_s in (*_booked(connection, span), *_kept(connection)):
        if from_unix_s < span.until_unix_s and until_unix_s > span.from_unix_s:
            for node in _names(nodes):
                runs[node].append((from_unix_s, until_unix_s))
    return runs


def _booked(connection: Connection, span: TimeRange) -> Iterator[tuple[str, float, float]]:
    within = (jobs.c.ended_unix_s > span.from_unix_s) & (jobs.c.started_unix_s < span.until_unix_s)
    for row in connection.execute(select(jobs.c.nodes, jobs.c.started_unix_s, jobs.c.ended_unix_s).where(within)):
        yield row.nodes, row.started_unix_s, row.ended_unix_s


def _kept(connection: Connection) -> Iterator[tuple[str, float, float]]:
    ran = ran_of(read_memory(connection, NAME))
    if ran is None:
        return
    for job in (*ran.running.values(), *(ended.job for ended in ran.waiting.values())):
        if job.start_s is not None:
            yield job.hosts, job.start_s, math.inf if job.job_id in ran.running else job.end_s or ran.at_s


@lru_cache(maxsize=4096)
def _names(nodes: str) -> tuple[str, ...]:
    try:
        return expand(nodes)
    except BadInput:
        return ()
