"""Makes the arrays of the engine from a cluster, the requests and the jobs; jobs that can never run are named.

Where jobs only take so many of equal units, `unit_case` does so without requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster, NodeType, Pool
from offpeak.model.jobs import Jobs, RejectedJobs, make_jobs
from offpeak.model.limits import PriorityOrder
from offpeak.model.request import Request
from offpeak.plugin.priority_bands import ALONE, right_of
from offpeak.predictors.run_times import UNLIMITED_S
from offpeak.sim_backend.engine.classes import REFUSED, RequestClasses, request_classes
from offpeak.sim_backend.engine.limits import NONE, limits_for, no_limits
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.engine.state import CORES, PRECEDENCE, SLOTS, Preemption, Tables, Workload, unit_tables
from offpeak.text import counted


@dataclass(frozen=True)
class RequestedJobs:
    """Jobs as columns, sorted by submission.

    `request` is the number of the job's request, `part_power_w` the draw of each of its parts [W]; a job with a higher
    `priority` goes first. `array` is -1 for a job of no array; of an array at most `throttle` tasks run at a time, 0
    for any number. `user` and `application` are -1 where they are unknown. Jobs are equal in columns left out.
    """

    job_id: Int64
    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    request: Int64
    part_power_w: Float64
    priority: Int64 | None = None
    array: Int64 | None = None
    throttle: Int64 | None = None
    user: Int64 | None = None
    application: Int64 | None = None

    def __len__(self) -> int:
        return len(self.job_id)


NO_LIMIT = -1


@dataclass(frozen=True, eq=False)
class SubmittedJobs:
    """What the agent sees of jobs when they are submitted; `limit_s` is NO_LIMIT for a job without a time limit."""

    user: Int64
    application: Int64
    nodes: Int64
    limit_s: Int64

    @classmethod
    def of(cls, jobs: Jobs, *, units_per_node: int) -> "SubmittedJobs":
        """Return what is seen of the jobs of a log, each of which has a limit."""
        return cls(jobs.user, jobs.application, -(-jobs.size // units_per_node), jobs.estimate_s)

    def without_limit(self, is_unlimited: NDArray[np.bool_]) -> "SubmittedJobs":
        """Return the same jobs, some of them without a time limit."""
        return replace(self, limit_s=np.where(is_unlimited, NO_LIMIT, self.limit_s))

    def as_questions(self) -> Jobs:
        """Return the jobs as questions for a predictor."""
        nothing = np.full(len(self.user), NOT_YET)
        limit_s = np.where(self.limit_s == NO_LIMIT, UNLIMITED_S, self.limit_s)
        jobs = make_jobs(nothing, np.maximum(self.nodes, 1), nothing, limit_s)
        return replace(jobs, job_id=jobs.job_id - 1, user=self.user, application=self.application)


@dataclass(frozen=True)
class EngineCase:
    """A cluster and jobs as the engine takes them.

    `kept` are the numbers of the jobs that can run, in the order of `workload`; `rejected` names the others.
    `request_of` and `group_of` are by class, `power_w` is the draw of each kept job [W]. `submitted` is what a
    predictor of run times sees of them.
    """

    cluster: Cluster
    tables: Tables
    workload: Workload
    job_id: Int64
    kept: Int64
    rejected: tuple[RejectedJobs, ...]
    request_of: tuple[Request, ...]
    power_w: Float64
    submitted: SubmittedJobs


def engine_case(cluster: Cluster, requests: Sequence[Request], jobs: RequestedJobs) -> EngineCase:
    """Return the case of the jobs; those whose request fits nowhere are left out and named with the reason.

    Raises BadInput if the jobs are not sorted by submission or name a request that is not there.
    """
    check_jobs(jobs, len(requests))
    return case_of_classes(request_classes(cluster, requests, jobs.request, jobs.estimate_s), jobs)


def case_of_classes(classes: RequestClasses, jobs: RequestedJobs) -> EngineCase:
    """Return the case of jobs, sorted by submission, for whose requests and estimates the classes were made."""
    job_class, rejected = classes.assign(jobs.request, jobs.estimate_s, jobs.job_id)
    kept = np.flatnonzero(job_class != REFUSED)
    return EngineCase(
        cluster=classes.cluster,
        tables=classes.tables,
        workload=_workload(classes, jobs, kept, job_class[kept]),
        job_id=jobs.job_id[kept],
        kept=kept,
        rejected=rejected,
        request_of=classes.requests,
        power_w=jobs.part_power_w[kept] * classes.parts[job_class[kept]],
        submitted=SubmittedJobs(
            user=_column(jobs.user, kept, NONE),
            application=_column(jobs.application, kept, NONE),
            nodes=classes.parts[job_class[kept]].astype(np.int64),
            limit_s=jobs.estimate_s[kept],
        ),
    )


def unit_case(
    jobs: Jobs, node_power_w: Float64, machine_size: int, *, units_per_node: int = 1, without_limit: Int64 | None = None
) -> EngineCase:
    """Return the case of jobs on a machine of equal units, of any of which each job takes as many as its size.

    `node_power_w` is their draw per unit [W]. No job is wider than the machine; jobs with the ids `without_limit` have
    no time limit.
    """
    submitted = SubmittedJobs.of(jobs, units_per_node=units_per_node)
    if without_limit is not None:
        submitted = submitted.without_limit(np.isin(jobs.job_id, without_limit))
    tables, workload = unit_workload(
        (jobs.submit_s, jobs.runtime_s, jobs.estimate_s), jobs.size, machine_size, node_power_w=node_power_w
    )
    case = case_of_units(tables, workload._replace(user=jobs.user), machine_size // units_per_node)
    return replace(case, job_id=jobs.job_id, submitted=submitted)


def case_of_units(tables: Tables, workload: Workload, nodes: int) -> EngineCase:
    """Return the case of jobs on so many nodes of equal units; they are numbered and have limits."""
    return EngineCase(
        cluster=Cluster((Pool(NodeType(0), frozenset(), nodes),)),
        tables=tables,
        workload=workload,
        job_id=workload.rank,
        kept=workload.rank,
        rejected=(),
        request_of=(),
        power_w=workload.node_power_w * workload.size,
        submitted=SubmittedJobs(workload.user, workload.user, workload.size, workload.estimate_s),
    )


def unit_workload(
    times_s: tuple[Int64, Int64, Int64], size: Int64, machine_size: int, *, node_power_w: Float64 | None = None
) -> tuple[Tables, Workload]:
    """Return jobs on a machine of equal units as the engine takes them: when each is submitted, its run time and its
    estimate, and how many units it takes.
    """
    submit_s, runtime_s, estimate_s = times_s
    count, number = len(size), np.arange(len(size))
    is_used = np.bincount(size) > 0
    units, number_of = np.flatnonzero(is_used), np.cumsum(is_used) - 1
    zeros, none = np.zeros(count, dtype=np.int64), np.zeros(0, dtype=np.int64)
    terms, stops = np.zeros((len(units), 5), dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    workload = Workload(
        submit_s=submit_s,
        runtime_s=runtime_s,
        estimate_s=estimate_s,
        request_class=number_of[size],
        rank=number,
        partition=zeros,
        closes=stops + 1,
        size=size,
        node_power_w=np.zeros(count) if node_power_w is None else node_power_w,
        limits=no_limits(count),
        record=number,
        tasks=np.ones(count, dtype=np.int64),
        preemption=Preemption(terms, stops, youngest_first=False),
        level=none,
        priority=zeros,
        fair_share=zeros,
        foreseen_s=estimate_s,
        user=zeros,
    )
    return unit_tables(units, machine_size), workload


def check_jobs(jobs: RequestedJobs, requests: int) -> None:
    """Raise BadInput if the jobs are not sorted by submission or name one of more than so many requests."""
    if len(jobs) and not (jobs.request.min() >= 0 and jobs.request.max() < requests):
        bad = int(np.flatnonzero((jobs.request < 0) | (jobs.request >= requests))[0])
        raise BadInput(
            f"job {jobs.job_id[bad]} has request {jobs.request[bad]}, but there are {counted(requests, 'request')}",
            hint="requests are numbered from 0",
        )
    late = np.flatnonzero(np.diff(jobs.submit_s) < 0)
    if len(late):
        raise BadInput(
            f"job {jobs.job_id[late[0] + 1]} was submitted before job {jobs.job_id[late[0]]}, which stands before it",
            hint="sort the jobs by submission",
        )
    negative = np.flatnonzero((jobs.runtime_s < 0) | (jobs.estimate_s < 0))
    if len(negative):
        raise BadInput(f"job {jobs.job_id[negative[0]]} has a negative run time or estimate", hint="leave it out")


def _workload(classes: RequestClasses, jobs: RequestedJobs, kept: Int64, job_class: Int64) -> Workload:
    nodes, size = _weights(classes.tables)
    priority = _column(jobs.priority, kept, 0)
    rank = np.empty(len(kept), dtype=np.int64)
    precedence = classes.preemption.terms[job_class, PRECEDENCE]
    rank[np.lexsort((np.arange(len(kept)), -priority, -precedence))] = np.arange(len(kept))
    part_w = jobs.part_power_w[kept]
    array = _column(jobs.array, kept, NONE)
    record = _records(array, job_class)
    site = classes.cluster.priority
    has_order = jobs.priority is not None or (site is not None and site.order is PriorityOrder.MULTIFACTOR)
    return Workload(
        submit_s=jobs.submit_s[kept],
        runtime_s=jobs.runtime_s[kept],
        estimate_s=jobs.estimate_s[kept],
        request_class=job_class,
        rank=rank,
        partition=classes.partition[job_class],
        closes=classes.closes,
        size=size[job_class],
        node_power_w=(classes.parts / nodes)[job_class] * part_w,
        limits=limits_for(
            classes.limits_of, job_class, _column(jobs.user, kept, NONE), array, _column(jobs.throttle, kept, 0)
        ),
        record=record,
        tasks=np.bincount(record, minlength=len(kept)),
        preemption=classes.preemption,
        level=_levels(classes)[job_class[: len(kept) if has_order else 0]],
        priority=priority,
        fair_share=np.zeros(len(kept), dtype=np.int64),
        foreseen_s=jobs.estimate_s[kept],
        user=_column(jobs.user, kept, NONE),
    )


def _levels(classes: RequestClasses) -> Int64:
    """Return by class the number of its level, ALONE for one whose jobs are never moved."""
    rights = [right_of(classes.cluster, qos=each.qos, reservation=each.reservation) for each in classes.requests]
    numbers = {level: number for number, level in enumerate(dict.fromkeys(right.level for right in rights))}
    return np.array([ALONE if right.alone else numbers[right.level] for right in rights], dtype=np.int64)


def _column(values: Int64 | None, kept: Int64, default: int) -> Int64:
    return np.full(len(kept), default, dtype=np.int64) if values is None else values[kept]


def _records(array: Int64, job_class: Int64) -> Int64:
    """Return the first task of each job's array that has the same class; the job itself if it is in no array."""
    found = np.arange(len(array))
    tasks = np.flatnonzero(array >= 0)
    pairs = np.stack((array[tasks], job_class[tasks]))
    _, first, number = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    found[tasks] = tasks[first][number.ravel()]
    return found


def _weights(tables: Tables) -> tuple[Float64, Int64]:
    """Return by class the node equivalents of a job in the pools that its chunks fill first, and its window units."""
    option = tables.option_first[:-1]
    units = -(-tables.copies // tables.room[option])
    nodes = units * tables.unit_nodes[option]
    cell = tables.cell_first[tables.option_pool[option]]
    is_counted = tables.window_column[cell] == SLOTS
    cores = np.ceil(nodes * tables.capacity[CORES, cell]).astype(np.int64)
    size = np.where(is_counted, units * tables.window_weight[cell], cores)
    by_class = tables.chunk_first[:-1]
    nodes, size = np.add.reduceat(np.append(nodes, 0), by_class), np.add.reduceat(np.append(size, 0), by_class)
    return np.where(nodes > 0, nodes, 1.0), np.maximum(size, 1)
