"""The queue hook on a long queue: the whole plan, from jobs and marks to the written changes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC
from statistics import mean

import numpy as np

from benchmarks.bars import Measured
from benchmarks.mixed_queue import mixed_queue, share_ordered
from offpeak.ledger.rows import JobMark
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import RANK
from offpeak.plugin.queue_hook.queue_plan import plan_queue
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

NOW_S = 1_795_000_000
HOUR_S = 3600
JOBS, COMPETITIONS, DELAYED, MARKED = 10_000, 200, 250, 500
HIGHEST = 4_294_901_759
ROUNDS = 7
REQUESTS = tuple(
    tuple(Request((f"p{number}",), (Chunk(1 + nodes),), whole_nodes=True) for nodes in range(7))
    for number in range(COMPETITIONS)
)
SEEDS = 20
RULES = QueueRules("greedy", 20, 24 * HOUR_S, 100, 72 * HOUR_S, UTC)


def queue_hook_benchmarks() -> Iterator[Measured]:
    """Measure a plan that changes some 500 jobs, with either policy."""
    for policy in ("greedy", "knapsack"):
        rules = QueueRules(policy, RULES.window, RULES.max_postponement_s, 100, RULES.longest_delay_s, UTC)
        facts = long_queue()
        plan = plan_queue(facts, rules)
        took_s = best_cpu_s(lambda of=facts, by=rules: plan_queue(of, by))  # type: ignore[misc]
        what = (
            f"queue hook, {policy}: {JOBS:,} pending jobs, {COMPETITIONS} competitions,"
            f" {len(plan.rank)} ranks and {len(plan.begin_s)} begin times changed"
        )
        yield Measured(what, 1000 * took_s, "ms of CPU", 100.0, False, "random jobs")


def mixed_queue_benchmarks() -> Iterator[Measured]:
    """Measure how many jobs of a mixed queue take part in the ordering, and the processor time of the decision."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(1, SEEDS + 1):
        facts = mixed_queue(1000, 200, seed=seed)
        for before in shares:
            shares[before].append(100 * share_ordered(facts, RULES.window, equal_requests_only=before))
    data = f"generated queues, {SEEDS} seeds"
    what = "share of the jobs in the windows of a mixed queue that take part in the ordering"
    yield Measured(f"{what}, by equal requests as before", mean(shares[True]), "%", 0.0, True, data)
    yield Measured(what, mean(shares[False]), "%", 90.0, True, data)
    for policy in ("greedy", "knapsack"):
        rules = QueueRules(policy, RULES.window, RULES.max_postponement_s, 100, RULES.longest_delay_s, UTC)
        facts = mixed_queue(JOBS, 500, 200)
        plan = plan_queue(facts, rules)
        # A cycle has new facts each time.
        took_s = best_cpu_s(lambda of=facts, by=rules: plan_queue(replace(of), by))  # type: ignore[misc]
        what = (
            f"queue hook, {policy}: {JOBS:,} pending records, 500 requests, 200 arrays, {len(plan.rank)} ranks changed"
        )
        yield Measured(what, 1000 * took_s, "ms of CPU", 400.0, False, "a generated queue")


def best_cpu_s(run: Callable[[], object]) -> float:
    """Return the least processor time of several runs."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return min(times)


def long_queue() -> QueueFacts:
    """Return a queue in which most windows stand as wanted; greedy moves jobs in 22."""
    random = np.random.default_rng(1)
    jobs = tuple(waiting_job(number) for number in range(JOBS))
    draws = {job.job_id: float(int(job.job_id)) for job in jobs}
    for number in range(22):
        draws |= {str(at): float(random.integers(100, 500)) for at in range(number, JOBS, COMPETITIONS)}
    marks = tuple(
        JobMark(job.job_id, job.submit_s, RANK, job.priority, job.priority, NOW_S - 60) for job in jobs[-MARKED:]
    )
    names = [f"p{number}" for number in range(COMPETITIONS)]
    pools = tuple(Pool(NodeType(4), frozenset({name}), 8) for name in names)
    cluster = Cluster(pools, {name: Partition(name) for name in names})
    start_s = NOW_S - HOUR_S + HOUR_S * np.arange(168, dtype=np.int64)
    value = 100 + 30 * np.sin(2 * np.pi * np.arange(168) / 24 + 2)
    prices = Series(start_s, int(start_s[-1]) + HOUR_S, value, "EUR/MWh", "made up")
    return QueueFacts(
        NOW_S, jobs, Ranking.VALUE, Peak.ON_PEAK, NOW_S + HOUR_S, prices, ("forecast",) * 168, draws,
        cluster=cluster, free_nodes=(8,) * COMPETITIONS, marks=marks,
    )  # fmt: skip


def waiting_job(number: int) -> Job:
    """Return a job of the long queue."""
    comment = "offpeak:delay=12h" if number % (JOBS // DELAYED) == 39 else ""
    limit_s = HOUR_S * (1 + number % 48)
    return Job(
        str(number), JobState.PENDING, "PENDING", "Priority", "ann", "", "job", comment,
        (f"p{number % COMPETITIONS}",), REQUESTS[number % COMPETITIONS][number % 7], "", "",
        HIGHEST - number, 0, 1 + number % 7, 1, True, limit_s,
        NOW_S - JOBS + number, None, None, None, "", True,
    )  # fmt: skip
