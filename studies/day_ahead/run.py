"""Runs one experiment: a pure function of the case, the seed and the folder of prices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from plugin.federation.cycle import GridRules, Weights
from plugin.federation.policies import grid_policy
from predictors.waits.similar_jobs import SimilarJobs
from sim_backend.grid.broker import Decider, Moment, StayHome, WaitEstimator, run_grid
from sim_backend.grid.electricity import Markets
from sim_backend.grid.grid import GridLog, SimulatedGrid
from sim_backend.grid.sites import GridSchedule
from sim_backend.grid.waits import LearnedWaits, NoisyWaits, ZeroGridWaits
from studies.day_ahead.experiment import Case, Experiment
from studies.day_ahead.figures_of import figures_of
from studies.day_ahead.links import DATA_MB, links_of
from studies.day_ahead.result import Result
from studies.day_ahead.xsede import grid_of


def run(experiment: Experiment, folder: Path, out: Path) -> Result:
    """Return what the case comes to in that replay; the jobs are the same for all cases of a replay.

    `out` has the forecasts of the prices in `folder`.
    """
    case = experiment.case
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    links = links_of(folder) if case.data else ()
    grid, markets = grid_of(
        folder, out, rng, jobs=experiment.jobs, history=experiment.history, links=links, most=case.most
    )
    grid = replace(grid, log=_asked(grid.log, case, rng))
    counted = np.arange(len(grid.log)) >= experiment.history
    home = run_grid(grid, StayHome(), period_s=case.period_s)
    waits = Remembered(_waits(case, experiment))
    schedule = home if case.strategy == "baseline" else _chosen(grid, case, waits, Markets(markets))
    return figures_of(grid, schedule, home, counted, waits.error_min(schedule), rng)


def _asked(log: GridLog, case: Case, rng: Generator) -> GridLog:
    """Return the log with the share of the jobs brokered that the case has, and with data where it has any."""
    data_mb = rng.choice(DATA_MB, len(log)) if case.data else np.zeros(len(log))
    brokered = log.brokered & (rng.random(len(log)) < case.brokered_pct / 100)
    return replace(log, brokered=brokered, data_mb=data_mb)


def _waits(case: Case, experiment: Experiment) -> WaitEstimator:
    if case.strategy == "inst":
        return ZeroGridWaits()
    learned = LearnedWaits(SimilarJobs)
    return NoisyWaits(learned, case.wrong_h, experiment.replay) if case.wrong_h else learned


def _chosen(grid: SimulatedGrid, case: Case, waits: WaitEstimator, markets: Markets) -> GridSchedule:
    rules = GridRules(weights=Weights(case.time_pct, 100 - case.time_pct), passes=case.passes)
    return run_grid(grid, Decider(grid_policy(case.strategy), rules, waits, markets), period_s=case.period_s)


class Remembered:
    """Passes predictions on, and keeps what was said last of each job at each site."""

    def __init__(self, waits: WaitEstimator) -> None:
        self._waits = waits
        self._said_s: dict[int, Float64] = {}

    def wait_s(self, moment: Moment) -> Float64:
        """Return what is predicted."""
        said_s = self._waits.wait_s(moment)
        self._said_s.update(zip(moment.job.tolist(), said_s, strict=True))
        return said_s

    def error_min(self, schedule: GridSchedule) -> float:
        """Return the mean absolute error of the predictions where the jobs went [min], 0 if nothing was asked."""
        job: Int64 = np.array(list(self._said_s), np.int64)
        if not len(job):
            return 0.0
        said_s = np.array([self._said_s[each][schedule.site[each]] for each in job.tolist()])
        return float(np.abs(said_s - (schedule.held_s - schedule.queued_s)[job]).mean()) / 60
