"""What an experiment comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


Result = MeasurementResult | SimulationResult


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; TypeError if it is none."""
    return MeasurementResult(**told) if "elapsed_ratio" in told else SimulationResult(**told)
