"""Choosing among many clusters: a whole cycle of minimum cost flow, the flow alone, and the flow beside networkx's."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import networkx as nx
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.bars import Measured
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from offpeak.model.step_series import Series
from offpeak.plugin.federation.cycle import GridCycle, SiteStates
from offpeak.plugin.federation.jobs import grid_jobs
from offpeak.plugin.federation.metaschedule import cheapest_flow, flow_cost, integer_costs, mcmf, scale_of, weights_of
from offpeak.plugin.federation.placement_costs import CostModel
from offpeak.plugin.federation.sites import Grid, Site

HOUR_S = 3600
SITES = 50
RUNS = 10
Answer = TypeVar("Answer")
DATA = "drawn, places for 9 of 10 jobs"


def federation_benchmarks() -> Iterator[Measured]:
    """Measure the best of ten runs."""
    cycle = drawn_cycle(1000, seed=1)
    cycle_s, _ = _best_of(lambda: mcmf(cycle))
    yield Measured("cycle of 1,000 jobs x 50 sites", cycle_s, "s", 1.5, False, DATA)
    flow = _flow_of(cycle)
    flow_s, _ = _best_of(lambda: cheapest_flow(*flow))
    yield Measured("its flow alone", flow_s * 1000, "ms", 50, False, DATA)
    small = _flow_of(drawn_cycle(200, seed=2))
    ours_s, site = _best_of(lambda: cheapest_flow(*small))
    theirs_s, cost = _best_of(lambda: networkx_cost(*small), runs=1)
    if cost != _cost(small[0], site):
        raise OffpeakError(f"the flow costs {_cost(small[0], site)}, that of networkx {cost}")
    yield Measured("networkx's time over ours, 200 x 50, same cost", theirs_s / ours_s, "", 10, True, DATA)


def drawn_cycle(jobs: int, *, seed: int) -> GridCycle:
    """Return a cycle of jobs of all sizes and sites of all speeds, prices and queues."""
    rng = np.random.default_rng(seed)
    most = int(0.9 * jobs / SITES)
    grid = Grid(tuple(_site(rng, f"s{number}", most) for number in range(SITES)))
    submitted = grid_jobs(
        job_id=range(jobs),
        cores=2 ** rng.integers(0, 9, jobs),
        estimate_s=rng.integers(60, 2 * 86_400, jobs),
        home=rng.integers(0, SITES, jobs),
    )
    states = SiteStates(
        rng.integers(0, grid.units),
        rng.integers(0, 3, SITES),
        np.zeros(SITES, np.bool_),
        tuple(_hours(rng, "EUR/MWh") for _ in range(SITES)),
        tuple(_hours(rng, "g/kWh") for _ in range(SITES)),
        grid.allocated_core_s,
    )
    return GridCycle(0, grid, submitted, states, rng.exponential(2 * HOUR_S, (jobs, SITES)))


def _site(rng: Generator, name: str, most: int) -> Site:
    units, unit_w, gflops = int(rng.integers(512, 4096)), float(rng.uniform(15, 90)), float(rng.uniform(7, 21))
    return Site(name, units, unit_w, core_gflops=gflops, pue=1.3, max_per_cycle=most)


def _hours(rng: Generator, unit: str) -> Series:
    return Series(HOUR_S * np.arange(72), 72 * HOUR_S, rng.uniform(20, 90, 72), unit, "drawn")


def _flow_of(cycle: GridCycle) -> tuple[Int64, NDArray[np.bool_], Int64]:
    predicted = CostModel(cycle).predict(cycle.wait_s)
    allowed = predicted.compatible
    cost = integer_costs(flow_cost(predicted, weights_of(cycle), scale_of(allowed, predicted)), allowed)
    return cost, allowed, cycle.grid.max_per_cycle


def _best_of(call: Callable[[], Answer], runs: int = RUNS) -> tuple[float, Answer]:
    best_s = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        answer = call()
        best_s = min(best_s, time.perf_counter() - begin)
    return best_s, answer


def _cost(cost: Int64, site: Int64) -> int:
    placed = np.flatnonzero(site >= 0)
    return int(cost[placed, site[placed]].sum())


def networkx_cost(cost: Int64, allowed: NDArray[np.bool_], most: Int64) -> int:
    """Return what the cheapest of the largest flows costs by networkx's network simplex, its network included."""
    network = nx.DiGraph()
    for job in range(len(cost)):
        network.add_edge("source", ("job", job), capacity=1, weight=0)
    for job, site in zip(*np.nonzero(allowed), strict=True):
        network.add_edge(("job", job), ("site", site), capacity=1, weight=int(cost[job, site]))
    for site, capacity in enumerate(most):
        network.add_edge(("site", site), "sink", capacity=int(capacity), weight=0)
    return int(nx.cost_of_flow(network, nx.max_flow_min_cost(network, "source", "sink")))
