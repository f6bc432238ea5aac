"""Runs one experiment on NorduGrid: a pure function of the strategy, the seed and the folder of prices."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plugin.federation.cycle import GridRules, Weights
from plugin.federation.policies import grid_policy
from predictors.waits.similar_jobs import SimilarJobs
from sim_backend.grid.broker import Decider, StayHome, WaitEstimator, run_grid
from sim_backend.grid.electricity import DayAhead, Markets
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.outcome import outcome_of
from sim_backend.grid.sites import GridSchedule
from sim_backend.grid.waits import LearnedWaits, ZeroGridWaits
from studies.day_ahead.nordugrid.grid import grid_of

PERIOD_S = 900
"""A quarter of an hour: fifty systems take six times the predictions of eight."""


@dataclass(frozen=True)
class Experiment:
    """A strategy at a weight of time w_t [%] with the chances of the seed (`seed`, `replay`), MaxQ any number."""

    strategy: str
    time_pct: float
    seed: int
    replay: int
    jobs: int = 10_000
    history: int = 4_000


@dataclass(frozen=True)
class Result:
    """Over the jobs that count: means, what a job cost [EUR], and the share of them that the busiest system got."""

    response_min: float
    wait_min: float
    cost_eur: float
    busiest_share: float


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; TypeError if it is none."""
    return Result(**told)


def run(experiment: Experiment, folder: Path, out: Path) -> Result:
    """Return what the strategy comes to; grid and jobs are the same for all strategies of a replay."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    grid, markets = grid_of(folder, out, rng, jobs=experiment.jobs, history=experiment.history)
    return _result(grid, _schedule(grid, markets, experiment), experiment.history)


def _schedule(grid: SimulatedGrid, markets: tuple[DayAhead, ...], experiment: Experiment) -> GridSchedule:
    if experiment.strategy == "baseline":
        return run_grid(grid, StayHome(), period_s=PERIOD_S)
    waits: WaitEstimator = ZeroGridWaits() if experiment.strategy == "inst" else LearnedWaits(SimilarJobs)
    rules = GridRules(weights=Weights(experiment.time_pct, 100 - experiment.time_pct))
    decider = Decider(grid_policy(experiment.strategy), rules, waits, Markets(markets))
    return run_grid(grid, decider, period_s=PERIOD_S)


def _result(grid: SimulatedGrid, schedule: GridSchedule, history: int) -> Result:
    out, counted = outcome_of(grid, schedule), slice(history, None)
    response_s, run_s = out.response_s[counted], (schedule.end_s - schedule.start_s)[counted]
    return Result(
        response_min=float(response_s.mean()) / 60,
        wait_min=float((response_s - run_s).mean()) / 60,
        cost_eur=float(out.cost[counted].mean()),
        busiest_share=float(np.bincount(schedule.site[counted]).max() / len(response_s)),
    )
