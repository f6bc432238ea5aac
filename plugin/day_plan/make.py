"""Makes the plan of a live queue, or repairs the one that stands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from plugin.day_plan.beside import beside_pools
from plugin.day_plan.day_plan import DayPlan
from plugin.day_plan.holds import Hold, gains, holds_of
from plugin.day_plan.joined import Answer, joined
from plugin.day_plan.line import Line, line_of
from plugin.day_plan.pools import Pool, hosts_of, pools_of
from plugin.day_plan.question import Question, loads_of, question_of
from plugin.day_plan.rates import drawn_by, rates_of, with_less
from plugin.day_plan.refit import refitted
from plugin.day_plan.sight import Sight
from plugin.planner.budget import Budget
from plugin.planner.one_by_one import one_by_one
from plugin.planner.plan import TOMORROW, Plan, first_unit
from plugin.planner.problem import NO_LIMIT, Rates
from plugin.queue_hook.begins import all_starts
from plugin.scheduler.job import HOLDING


def plan_day(sight: Sight, standing: DayPlan | None, budget: Budget) -> DayPlan | None:
    """Return the plan; None where no price is known. What `standing` says stays where nothing speaks against it."""
    prices = sight.queue.prices
    if prices is None or not prices.known.any():
        return None
    line = line_of(sight)
    pools, left_out = pools_of(sight.queue, sight.nodes, line.ordered)
    rates = whole = rates_of(sight, prices)
    loads = loads_of(sight, [job for job in sight.queue.jobs if job.state in HOLDING and hosts_of(job)])
    in_pools = {job.job_id for pool in pools for job in pool.holding}
    rates = beside_pools(rates, sight, [load for load in loads if load.job_id not in in_pools])
    answers = []
    for pool in pools:
        answers.append(_answer(sight, pool, line, rates, standing, budget))
        rates = with_less(rates, *drawn_by(answers[-1].question.problem, answers[-1].plan))
    return joined(sight, whole, loads, left_out, answers, standing)


def _answer(sight: Sight, pool: Pool, line: Line, rates: Rates, standing: DayPlan | None, budget: Budget) -> Answer:
    """Return the pool's plan: jobs wait for a cheap hour only where they come to start in one."""
    windows = [
        np.array([at for at, job in enumerate(pool.waiting) if job.job_id in window], np.int64)
        for window in line.windows
    ]
    holds = holds_of(sight, pool.waiting)
    at_once = {
        job: replace(hold, begin_s=0, for_price=False) if hold.for_price else hold for job, hold in holds.items()
    }
    free = _settled(sight, pool, at_once, rates, standing, windows, budget)
    wished = frozenset(job for job, hold in holds.items() if hold.for_price)
    if not wished:
        return free
    held = _settled(sight, pool, holds, rates, standing, windows, budget)
    kept = {job: holds[job] for job in _worth_it(sight, pool, free.plan, held.plan)}
    return replace(_settled(sight, pool, at_once | kept, rates, standing, windows, budget), wished=wished)


def _settled(
    sight: Sight,
    pool: Pool,
    holds: Mapping[str, Hold],
    rates: Rates,
    standing: DayPlan | None,
    windows: Sequence[Int64],
    budget: Budget,
) -> Answer:
    """Return the plan under these holds; a job that finds no place by its latest start then does without its hold."""
    question = question_of(sight, pool, holds, rates)
    plan = refitted(question.problem, _standing_in(question, standing, sight), windows, budget)
    late = np.flatnonzero(~plan.placed & (question.problem.work.latest_end_s < NO_LIMIT))
    if not len(late):
        return Answer(question, plan, holds)
    loose = {pool.waiting[at].job_id: Hold() for at in late}
    question = question_of(sight, pool, {**holds, **loose}, rates)
    placed = one_by_one(question.problem, late, plan.solver, kept=plan)
    return Answer(question, replace(placed, note=plan.note), {**holds, **loose})


def _worth_it(sight: Sight, pool: Pool, free: Plan, held: Plan) -> list[str]:
    starts_of, now_s = all_starts(sight.queue), sight.queue.now_s
    return [
        job.job_id
        for job, free_s, held_s in zip(pool.waiting, free.start_s.tolist(), held.start_s.tolist(), strict=True)
        if TOMORROW not in (free_s, held_s)
        and gains(sight, starts_of, job, held_start_s=now_s + held_s, free_start_s=now_s + free_s)
    ]


def _standing_in(question: Question, standing: DayPlan | None, sight: Sight) -> Plan | None:
    """Return what stood of the pool's jobs, on this clock and these nodes."""
    if standing is None:
        return None
    work, pool = question.problem.work, question.pool
    row_of = {node.name: row for row, node in enumerate(pool.nodes)}
    start_s, node = np.full(len(work), TOMORROW), np.full(int(work.units.sum()), TOMORROW)
    for at, (job, first) in enumerate(zip(pool.waiting, first_unit(work).tolist(), strict=False)):
        before = standing.by_id.get(job.job_id)
        if before is None or before.start_s is None or len(before.hosts) != work.units[at]:
            continue
        start_s[at] = before.start_s - sight.queue.now_s
        node[first : first + len(before.hosts)] = [row_of.get(host, TOMORROW) for host in before.hosts]
    return Plan(np.where(start_s < 0, TOMORROW, start_s), node, "standing")
