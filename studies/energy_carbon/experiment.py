"""What is run and what it results in: a cell of the testbed tables (measurement) or a point of the simulations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OF_DEFAULT, AS_MEASURED = "of the default run", "as measured"
"""Readings of the utilization, "the percentage of time when cluster resources are stressed with jobs relative to the
total elapsed time": the default run's, which lasts as long as the table's; or the energy-aware run's, both lasting so.
"""
PAPER_WIDTHS, ANY_WIDTH = "paper", "any"


@dataclass(frozen=True)
class Measurement:
    """A workload on a testbed, asleep in one `way` ("both" is standby with the governor), at a utilization.

    `default`: the default scheduler's discipline. `keeps`: nodes that the first waiting job will soon need stay awake;
    otherwise every idle node sleeps at once. `walltime_s`: what jobs ask for at least, 0 for exactly their run time.
    `period_s`: between the default scheduler's passes, 0 for one at each event.
    """

    testbed: str
    way: str
    load_pct: int
    default: str
    reading: str = OF_DEFAULT
    widths: str = PAPER_WIDTHS
    keeps: bool = True
    walltime_s: int = 0
    period_s: int = 0


@dataclass(frozen=True)
class Simulation:
    """One scheduler and its energy-aware counterpart on a cluster, where jobs ask for `load` of it (1: all)."""

    servers: int
    discipline: str
    load: float


@dataclass(frozen=True)
class SingleSiteExperiment:
    """A case with the chances of the seed (`seed`, `replay`)."""

    case: Measurement | Simulation
    seed: int
    replay: int


@dataclass(frozen=True)
class SingleSiteReplays:
    """How often each case is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(case: Measurement | Simulation, replays: SingleSiteReplays) -> list[SingleSiteExperiment]:
    """Return the experiments of a case, one a replay."""
    return [SingleSiteExperiment(case, replays.seed, replay) for replay in range(replays.count)]


@dataclass(frozen=True)
class MeasurementResult:
    """Means over the workloads of a replay; savings are against the default scheduler.

    `elapsed_ratio`: the energy-aware run's elapsed time over the default's; `order_ratio` the same were no node to
    sleep. `far_shorter`: the share of workloads whose order_ratio is at most 0.85. `busy_w`: the draw of a node with a
    job. `default_share`: the share of node time in which the default run's nodes had jobs. `wakes`: of all nodes.
    """

    saved_pct: float
    power_saved_pct: float
    elapsed_ratio: float
    order_ratio: float
    far_shorter: float
    busy_w: float
    default_share: float
    wakes: float


@dataclass(frozen=True)
class SimulationResult:
    """A scheduler and its energy-aware counterpart on the same jobs; `sleep_delay_s` is the mean over all jobs."""

    saved_pct: float
    utilization: float
    wait_s: float
    aware_wait_s: float
    sleep_delay_s: float


SingleSiteResult = MeasurementResult | SimulationResult


def parse_result(told: Mapping[str, Any]) -> SingleSiteResult:
    """Return the result that `dataclasses.asdict` gave; TypeError if it is none."""
    return MeasurementResult(**told) if "elapsed_ratio" in told else SimulationResult(**told)
