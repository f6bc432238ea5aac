"""The ledger's jobs as a log for replays: the record of what really came, with the measured power of each job.

A row of an older program does not say when its job was submitted: it is left out, and counted. Jobs that have not ended
yet are given beside the rows, with the ends and the energies that are expected of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, or_, select

from offpeak.ledger.rows import JobUse
from offpeak.ledger.tables import jobs
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.jobs import Jobs, LogNames, Trace
from offpeak.model.request import Chunk, Request
from offpeak.model.time_range import TimeRange
from sim_backend.traces.requests import request_classes

COLUMNS = (
    *("started_unix_s", "ended_unix_s", "submitted_unix_s", "limit_s", "node_count", "cpus", "energy_j"),
    *("user", "account", "partition"),
)
NUMBERS = 7
UNKNOWN = -1


@dataclass(frozen=True)
class LedgerTrace:
    """The jobs as a log whose second 0 is the begin of the time, and how many rows of that time are left out."""

    trace: Trace
    left_out: int


def ledger_trace(
    connection: Connection, span: TimeRange, cluster: Cluster, not_ended: Iterable[JobUse] = ()
) -> LedgerTrace:
    """Return the jobs that waited or ran in that time, in nodes of the cluster, in processors if jobs share them."""
    came = or_(jobs.c.submitted_unix_s < span.until_unix_s, jobs.c.started_unix_s < span.until_unix_s)
    within = (jobs.c.ended_unix_s > span.from_unix_s) & came
    ended = connection.execute(select(*(jobs.c[name] for name in COLUMNS)).where(within))
    rows = [tuple(row) for row in ended] + [tuple(getattr(job, name) for name in COLUMNS) for job in not_ended]
    numbers = np.array([row[:NUMBERS] for row in rows], np.float64).reshape(-1, NUMBERS)
    is_known = ~np.isnan(numbers[:, [2, 4]]).any(axis=1)
    if is_shared := any(partition.shared for partition in cluster.partitions.values()):
        is_known &= numbers[:, 5] > 0
    known = np.flatnonzero(is_known)
    known = known[np.argsort(numbers[known, 2], kind="stable")]
    trace = _trace(numbers[known], [rows[at][NUMBERS:] for at in known.tolist()], span, cluster, is_shared=is_shared)
    return LedgerTrace(trace, len(rows) - len(known))


def _trace(
    numbers: np.ndarray, texts: Sequence[Sequence[str]], span: TimeRange, cluster: Cluster, *, is_shared: bool
) -> Trace:
    begin_s = int(span.from_unix_s)
    start_s, end_s, submit_s = (np.rint(numbers[:, at] - begin_s).astype(np.int64) for at in range(3))
    runtime_s = np.maximum(end_s - start_s, 0)
    nodes = np.maximum(numbers[:, 4], 1).astype(np.int64)
    cpus = np.nan_to_num(numbers[:, 5]).astype(np.int64)
    size = cpus if is_shared else nodes
    has_limit = ~np.isnan(numbers[:, 3])
    (user, users), (group, groups), (partition, partitions) = (
        _coded([row[at] for row in texts]) for at in range(len(COLUMNS) - NUMBERS)
    )
    unit_s = size * runtime_s
    number = np.arange(len(numbers))
    unknown = np.full(len(numbers), UNKNOWN)

    def request_of(row: tuple[int, ...]) -> Request:
        copies, processors, code = row
        of_job = cluster.partitions.get(partitions[code])
        is_whole = not is_shared or (of_job is not None and not of_job.shared)
        names = (partitions[code],) if partitions[code] else ()
        return Request(names, (Chunk(copies, max(1, -(-processors // copies))),), whole_nodes=is_whole)

    request, requests = request_classes((nodes, cpus, partition), request_of)
    columns = Jobs(
        job_id=number,
        submit_s=np.minimum(submit_s, start_s),
        runtime_s=runtime_s,
        estimate_s=np.where(has_limit, np.nan_to_num(numbers[:, 3]), runtime_s).astype(np.int64),
        size=size,
        user=user,
        group=group,
        queue=partition,
        application=unknown,
        logged_start_s=start_s,
        node_power_w=np.where(unit_s > 0, numbers[:, 6] / np.maximum(unit_s, 1), np.nan),
        request=request,
        partition=partition,
    )
    cores = sum(pool.nodes * pool.node_type.cores for pool in cluster.pools)
    return Trace(
        name="the ledger",
        jobs=columns.take(np.argsort(columns.submit_s, kind="stable")),
        processors=None,
        nodes=None,
        unix_start_s=begin_s,
        time_zone=None,
        names=LogNames(user=users, group=groups, partition=partitions),
        units_per_node=max(1, round(cores / cluster.nodes)) if is_shared else 1,
        without_estimate=number[~has_limit],
        requests=requests,
    )


def _coded(texts: Sequence[str]) -> tuple[Int64, tuple[str, ...]]:
    """Return the number of each text among the distinct ones, and these."""
    distinct, number = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    return number.astype(np.int64), tuple(distinct.tolist())
