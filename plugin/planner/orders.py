"""The orders in which jobs are placed: eleven criteria, each upwards and downwards.

Source: "Optimizing profit and cooling costs in HPC cluster scheduling", section 7.1.
"""

from collections.abc import Mapping

import numpy as np

from offpeak.model.arrays import Float64, Int64
from plugin.planner.problem import Machine, Work

UP, DOWN = "up", "down"


def orders_of(work: Work, machine: Machine) -> Mapping[str, Int64]:
    """Return all 22 orders by name, such as "duration up"; ties in the order of the jobs, upwards and downwards."""
    keys = _keys(work, machine)
    orders: dict[str, Int64] = {}
    for name, columns in keys.items():
        up = np.lexsort(columns[::-1])
        down = np.lexsort([-column for column in columns[::-1]])
        orders[f"{name} {UP}"], orders[f"{name} {DOWN}"] = up, down
    return orders


def _keys(work: Work, machine: Machine) -> Mapping[str, tuple[Float64, ...]]:
    node_share = _share_of_node(work, machine)
    whole = node_share * work.units
    hunger = power_per_revenue(work)
    duration_s = work.duration_s.astype(np.float64)
    return {
        "earliest start": (work.release_s.astype(np.float64),),
        "latest start": ((work.latest_end_s - work.duration_s).astype(np.float64),),
        "duration": (duration_s,),
        "units": (work.units.astype(np.float64),),
        "resources per node": (node_share,),
        "resources": (whole,),
        "resources x duration": (whole * duration_s,),
        "power": (work.power_w,),
        "power per profit": (hunger,),
        "power per profit, short first": (hunger, duration_s),
        "power per profit, long first": (hunger, -duration_s),
    }


def power_per_revenue(work: Work) -> Float64:
    """Return watts per money and second; infinite for a job that earns nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = work.power_w / work.revenue_per_s
    return np.where(work.revenue_per_s > 0, ratio, np.inf)


def _share_of_node(work: Work, machine: Machine) -> Float64:
    """Return the share of the largest node that a unit takes, of the resource of which it takes most."""
    shares = [
        asked / max(int(has.max()), 1)
        for asked, has in (
            (work.cores, machine.cores),
            (work.memory_mb, machine.memory_mb),
            (work.gpus, machine.gpus),
        )
    ]
    return np.asarray(np.maximum.reduce(shares))
