"""Refuses problems that no plan can answer, each with one clear line."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from plugin.planner.problem import Problem

NAMED = 5
NEGATIVE_PRICES = "some prices are negative: in those hours energy earns money, and so does cooling"
NOTHING_EARNS = "no job earns anything: the plan that starts nothing may be the cheapest, and jobs still run"


def check_problem(problem: Problem) -> tuple[str, ...]:
    """Raise BadInput where something is wrong; return sentences on what is odd but can be planned, each said once."""
    for complaint in _complaints(problem):
        raise complaint
    return tuple(_remarks(problem))


def _complaints(problem: Problem) -> Iterator[BadInput]:
    work, rates = problem.work, problem.rates
    if np.any(np.diff(rates.edge_s) <= 0) or rates.edge_s[0] != 0:
        yield BadInput("the edges of prices and temperatures do not rise from 0", hint="give each time once, in order")
    odd = (work.units < 1) | (work.cores < 1) | (work.duration_s < 1)
    if odd.any():
        yield BadInput(f"{_jobs(problem, odd)} without units, cores or duration", hint="each is 1 at the least")
    too_large = np.array([_nodes_for(problem, job) < work.units[job] for job in range(len(work))], np.bool_)
    if too_large.any():
        hint = "leave it out, or check its cores, memory and GPUs against the nodes'"
        yield BadInput(f"{_jobs(problem, too_large)} larger than the machine", hint=hint)
    if len(work) and rates.horizon_s < work.duration_s.min():
        shortest_s = int(work.duration_s.min())
        hint = f"plan {shortest_s} s ahead at the least"
        yield BadInput(f"the plan ends after {rates.horizon_s} s, before the shortest job would", hint=hint)
    hungry = work.power_w > rates.cap_w.max()
    if hungry.any():
        hint = f"raise it to {work.power_w[hungry].max():.0f} W for an hour, or leave them out"
        yield BadInput(f"{_jobs(problem, hungry)} above the cap of {rates.cap_w.max()} W at all times", hint=hint)
    drawn_w = problem.running.power_w.sum()
    if drawn_w > rates.cap_w[0]:
        hint = "running jobs are not stopped: the cap can hold when they have ended"
        yield BadInput(f"running jobs draw {drawn_w:.0f} W, above the cap of {rates.cap_w[0]} W", hint=hint)


def _remarks(problem: Problem) -> Iterator[str]:
    said = problem.facility.beyond_table(problem.rates.temperature_c)
    if said:
        yield said
    if np.any(problem.rates.price_per_kwh < 0):
        yield NEGATIVE_PRICES
    if len(problem.work) and not np.any(problem.work.revenue_per_s > 0):
        yield NOTHING_EARNS


def _nodes_for(problem: Problem, job: int) -> int:
    work, machine = problem.work, problem.machine
    fits = (
        (machine.cores >= work.cores[job])
        & (machine.memory_mb >= work.memory_mb[job])
        & (machine.gpus >= work.gpus[job])
    )
    return int(np.count_nonzero(fits))


def _jobs(problem: Problem, which: NDArray[np.bool_]) -> str:
    ids = problem.work.job_id[which]
    named = ", ".join(str(each) for each in ids[:NAMED])
    more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
    return f"job {named} is" if len(ids) == 1 else f"jobs {named}{more} are"
