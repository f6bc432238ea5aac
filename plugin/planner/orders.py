"""Orders in which jobs are placed, and the time that a search for the best one may take.

Source of the orders: "Optimizing profit and cooling costs in HPC cluster scheduling", section 7.1: eleven criteria,
each upwards and downwards.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.plugin.planner.problem import NodeCapacities, Work


@dataclass(frozen=True)
class Budget:
    """The time on `clock` at which the best plan so far is needed, and the seed of all random numbers."""

    until_s: float
    seed: int = 1
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """The time that is left, 0 at the least."""
        return max(self.until_s - self.clock(), 0.0)


def budget_of(seconds: float, *, seed: int = 1) -> Budget:
    """Return the budget of so many seconds from now."""
    return Budget(time.monotonic() + seconds, seed)


def all_orders(work: Work, machine: NodeCapacities) -> Mapping[str, Int64]:
    """Return all 22 orders by name, such as "duration up"; ties in the order of the jobs, upwards and downwards."""
    requests = ((work.cores, machine.cores), (work.memory_mb, machine.memory_mb), (work.gpus, machine.gpus))
    node_share: Float64 = np.maximum.reduce([requested / max(int(has.max()), 1) for requested, has in requests])
    whole: Float64 = node_share * work.units
    power_per_profit = power_per_revenue(work)
    duration_s = work.duration_s.astype(np.float64)
    criteria: Mapping[str, tuple[Float64, ...]] = {
        "earliest start": (work.release_s.astype(np.float64),),
        "latest start": ((work.latest_end_s - work.duration_s).astype(np.float64),),
        "duration": (duration_s,),
        "units": (work.units.astype(np.float64),),
        "resources per node": (node_share,),
        "resources": (whole,),
        "resources x duration": (whole * duration_s,),
        "power": (work.power_w,),
        "power per profit": (power_per_profit,),
        "power per profit, short first": (power_per_profit, duration_s),
        "power per profit, long first": (power_per_profit, -duration_s),
    }
    orders: dict[str, Int64] = {}
    for name, columns in criteria.items():
        orders[f"{name} up"] = np.lexsort(columns[::-1])
        orders[f"{name} down"] = np.lexsort([-column for column in columns[::-1]])
    return orders


def power_per_revenue(work: Work) -> Float64:
    """Return watts per money and second; infinite for a job that earns nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = work.power_w / work.revenue_per_s
    return np.where(work.revenue_per_s > 0, ratio, np.inf)
