"""A pool of the live queue as the planner's problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.settings.plan import revenue_per_core_h
from plugin.day_plan.day_plan import Load
from plugin.day_plan.holds import Hold
from plugin.day_plan.pools import Pool, hosts_of, run_s_of
from plugin.day_plan.sight import Room, Sight
from plugin.planner.problem import NO_LIMIT, Machine, Problem, Rates, Running, Work
from plugin.scheduler.job import Job

OVERDUE_S = 300
"""A job that has outlived its prediction and its limit is taken to end so soon."""


@dataclass(frozen=True, eq=False)
class Question:
    """A pool and its problem: job i of the work is `pool.waiting[i]`, node n of the machine `pool.nodes[n]`."""

    pool: Pool
    problem: Problem


def question_of(sight: Sight, pool: Pool, holds: Mapping[str, Hold], rates: Rates) -> Question:
    """Return the question; `holds` has every job of the pool that waits."""
    whole = not sight.shared_nodes or all(job.whole_nodes for job in (*pool.waiting, *pool.holding))
    cpus = [1 if whole else max(node.cpus, 1) for node in pool.nodes]
    zeros = np.zeros(len(cpus), np.int64)
    machine = Machine(np.array(cpus, np.int64), zeros, zeros)
    running = _running(sight, pool, cpus)
    work = _work(sight, pool.waiting, holds, least_cpus=min(cpus), whole=whole)
    return Question(pool, Problem(work, machine, running, _not_below(rates, running), sight.room.facility))


def loads_of(sight: Sight, jobs: Sequence[Job]) -> tuple[Load, ...]:
    """Return the jobs that have nodes, with when they are expected to end."""
    facts = sight.queue
    return tuple(
        Load(
            job.job_id, job.user, hosts_of(job), end_s(job, sight), facts.node_power_w.get(job.job_id, 0.0) * job.nodes
        )
        for job in jobs
    )


def end_s(job: Job, sight: Sight) -> int:
    """Return when a job that has nodes is expected to end: one that has outlived its prediction, at its limit."""
    now_s, start_s = sight.queue.now_s, job.start_s or sight.queue.now_s
    expected = (run_s_of(job, sight.queue), job.limit_s)
    later = [start_s + run_s for run_s in expected if run_s and start_s + run_s > now_s]
    return min(later, default=now_s + OVERDUE_S)


def _work(sight: Sight, jobs: Sequence[Job], holds: Mapping[str, Hold], *, least_cpus: int, whole: bool) -> Work:
    facts = sight.queue
    rows = [_row(sight, job, holds[job.job_id], 1 if whole else _cores(job, least_cpus)) for job in jobs]
    units, cores, run_s, release_s, latest_end_s = np.array(rows, np.int64).reshape(-1, 5).T
    power_w = np.array([facts.node_power_w[job.job_id] for job in jobs], np.float64) * units
    cpus = np.array([max(job.cpus, job.nodes, 1) for job in jobs], np.float64)
    zeros = np.zeros(len(jobs), np.int64)
    revenue_per_s = cpus * _per_core_h(sight.room, jobs) / 3600
    numbers = np.arange(len(jobs))
    return Work(numbers, units, cores, zeros, zeros, run_s, release_s, latest_end_s, power_w, revenue_per_s)


def _per_core_h(room: Room, jobs: Sequence[Job]) -> Float64:
    usual = room.revenue_per_core_h
    each = (revenue_per_core_h(room.revenues, job.account, job.qos, usual=usual) for job in jobs)
    return np.fromiter(each, np.float64, len(jobs))


def _row(sight: Sight, job: Job, hold: Hold, cores: int) -> tuple[int, ...]:
    """Return units, cores of each, run time, release and latest end [s from now]."""
    now_s, run_s = sight.queue.now_s, run_s_of(job, sight.queue) or 1
    last_s = hold.latest_start_s if hold.for_price else None
    latest_end_s = NO_LIMIT if last_s is None else last_s - now_s + run_s
    return max(job.nodes, 1), cores, run_s, max(hold.begin_s - now_s, 0), latest_end_s


def _cores(job: Job, least_cpus: int) -> int:
    """Return what a unit takes of a node; of whole nodes as much as the smallest has, at the least."""
    return max(-(-job.cpus // max(job.nodes, 1)), least_cpus if job.whole_nodes else 1)


def _running(sight: Sight, pool: Pool, cpus: Sequence[int]) -> Running:
    """Return a row for each node of each job; jobs that have more of a node than it has get what is left."""
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    left, rows = list(cpus), []
    for job in pool.holding:
        hosts = hosts_of(job)
        here = [row_of[host] for host in hosts if host in row_of]
        for row in here:
            each = left[row] if job.whole_nodes else -(-max(job.cpus, 1) // len(hosts))
            taken = min(each, left[row])
            left[row] -= taken
            node_w = sight.queue.node_power_w.get(job.job_id, 0.0)
            rows.append((row, end_s(job, sight) - sight.queue.now_s, taken, node_w))
    node, until_s, cores = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    zeros = np.zeros(len(rows), np.int64)
    power_w = np.array([row[3] for row in rows], np.float64)
    return Running(node, until_s, cores, zeros, zeros, power_w, np.zeros(len(rows)))


def _not_below(rates: Rates, running: Running) -> Rates:
    """Return the rates with no cap below what runs on: running jobs are not stopped."""
    drawn = [int(np.ceil(running.power_w[running.until_s > from_s].sum())) for from_s in rates.edge_s[:-1].tolist()]
    return Rates(rates.edge_s, rates.price_per_kwh, rates.temperature_c, np.maximum(rates.cap_w, drawn))
