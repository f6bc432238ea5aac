"""The plan of a live queue repaired after events: jobs that vanished or ended early, and a node that is lost."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC

import numpy as np

from benchmarks.bars import Measured
from benchmarks.queue_hook import HOUR_S, NOW_S, waiting_job
from offpeak.errors import OffpeakError
from offpeak.model.facility import facility_named
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.day_plan.inputs import PlanFacility, PlanInputs
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

JOBS, NODES, LOST = 1000, 200, 50
RULES = QueueRules("plan", 100, 24 * HOUR_S, 100, 72 * HOUR_S, UTC)
ROOM = PlanFacility(facility_named("air", full_power_w=80_000.0), idle_w=75.0, revenue_per_core_h=0.05, outside_c=15.0)


def day_plan_benchmarks() -> Iterator[Measured]:
    """Measure the best of three: the first one loads the kernels."""
    inputs = _inputs(_jobs(JOBS + LOST), 0)
    standing = plan_day(inputs, None, budget_of(0.0))
    later = _inputs(_jobs(JOBS + LOST)[LOST:], 300)
    later = replace(later, nodes=later.nodes[1:])
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        plan = plan_day(later, standing, budget_of(0.0))
        times.append(time.perf_counter() - begin)
    if plan is None or plan.violations:
        raise OffpeakError(f"the plan is wrong: {plan.violations[0] if plan else 'there is none'}")
    what = f"plan repaired: {JOBS:,} jobs, {NODES} nodes, {LOST} jobs gone, a node lost, {len(plan.moves)} starts moved"
    yield Measured(what, min(times), "s", 2.0, False, "random jobs")


def _jobs(count: int) -> tuple[Job, ...]:
    random = np.random.default_rng(1)
    nodes = np.minimum(random.geometric(0.15, count), 100)
    limit_s = random.integers(600, 12 * HOUR_S, count)
    return tuple(
        waiting_job(at)._replace(
            job_id=str(at + 1),
            request=Request(("batch",), (Chunk(int(nodes[at])),), whole_nodes=True),
            partitions=("batch",),
            nodes=int(nodes[at]),
            cpus=int(nodes[at]),
            limit_s=int(limit_s[at]),
            comment="offpeak:delay=24h" if at % 5 == 0 else "",
            begin_s=None,
        )
        for at in range(count)
    )


def _inputs(jobs: tuple[Job, ...], later_s: int) -> PlanInputs:
    start_s = NOW_S + HOUR_S * np.arange(96, dtype=np.int64)
    price = 60 + 40 * np.sin(np.arange(96) * 2 * np.pi / 24)
    prices = Series(start_s, int(start_s[-1]) + HOUR_S, price, "EUR/MWh", "model")
    random = np.random.default_rng(2)
    draws = {job.job_id: float(watts) for job, watts in zip(jobs, random.uniform(150, 400, len(jobs)), strict=True)}
    facts = QueueFacts(NOW_S + later_s, jobs, Ranking.VALUE, Peak.ON_PEAK, prices=prices, node_power_w=draws)
    nodes = tuple(_node(f"n{number}") for number in range(NODES))
    return PlanInputs(facts, RULES, nodes, shared_nodes=False, room=ROOM)


def _node(name: str) -> Node:
    known = (False, False, True, False, False, "", "", None, ("batch",), (), 1, 0, 1000, None, None)
    return Node(name, "IDLE", NodeUse.FREE, PowerState.ON, *known)
