"""What draws power beside the jobs of the pools: idle nodes, and jobs on other nodes."""

from collections.abc import Sequence

import numpy as np

from plugin.day_plan.day_plan import Load
from plugin.day_plan.pools import is_usable
from plugin.day_plan.rates import power_over_time, with_less
from plugin.day_plan.sight import Sight
from plugin.planner.problem import Rates
from plugin.scheduler.node import Node, NodePower, NodeUse


def idle_w(sight: Sight) -> float:
    """Return what the nodes draw that are up without a job; they are taken to be so all the time: the safe side."""
    return sight.room.idle_w * sum(map(_is_idle, sight.nodes))


def beside_pools(rates: Rates, sight: Sight, loads: Sequence[Load]) -> Rates:
    """Return the rates with caps lowered by idle nodes and by jobs that no pool has."""
    ends_s = np.array([*(load.until_s - sight.queue.now_s for load in loads), rates.horizon_s], np.int64)
    power_w = np.array([*(load.power_w for load in loads), idle_w(sight)])
    return with_less(rates, *power_over_time(np.zeros(len(ends_s), np.int64), ends_s, power_w))


def _is_idle(node: Node) -> bool:
    return is_usable(node) and node.use is NodeUse.FREE and node.power is NodePower.UP
