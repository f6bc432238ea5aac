"""The fewest power cycles for an energy, were the future known and no job moved.

A node that sleeps through a gap costs one cycle, however long the gap is, so the gaps that save most are slept through
first. Why no other assignment of jobs to nodes needs fewer: sort the nodes of any run at each instant from active to
asleep. Whenever one falls asleep the lowest active level does, so cycles are those of the levels, and each level sleeps
only in its own gaps (sim_backend/nodes/bounds.py).
"""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import DAY_S
from offpeak.model.step_integrals import Usage, integrate_constant
from sim_backend.nodes.bounds import gaps_of, saved_asleep, sleep_terms
from sim_backend.powered_replay import PoweredMachine

SHARES_PCT = range(100)


def least_cycles(usage: Usage, machine: PoweredMachine) -> tuple[float | None, ...]:
    """Return the fewest cycles a node and day that save 0, 1, ... 99 % of the idle energy; None for more than can be.

    `usage` is a schedule on nodes that are always on, which keep its jobs where they are.
    """
    gaps = gaps_of(usage, machine.units_per_node)
    terms = sleep_terms(machine.node_class, machine.node_class.idle_w)
    saved_j = saved_asleep(integrate_constant(1.0), usage, gaps, terms)
    idle_j = terms.idle_w * float((gaps.nodes * (gaps.until_s - gaps.from_s)).sum())
    cycles = fewest(saved_j, gaps.nodes, np.array(SHARES_PCT) / 100 * idle_j)
    node_days = machine.nodes * (usage.until_s - usage.begin_s) / DAY_S
    return tuple(None if np.isnan(count) else count / node_days for count in cycles.tolist())


def fewest(saved_j: Float64, nodes: Int64, wanted_j: Float64) -> Float64:
    """Return how many sleeps save at least each of the `wanted_j`: float64[k], NaN where all together do not.

    `nodes[i]` can each save `saved_j[i]`, by one sleep.
    """
    order = np.argsort(-saved_j, kind="stable")[: np.count_nonzero(saved_j > 0)]
    each_j, nodes = np.append(saved_j[order], np.nan), nodes[order]
    total_j = np.concatenate([[0.0], np.cumsum(saved_j[order] * nodes)])
    sleeps = np.concatenate([[0], np.cumsum(nodes)])
    # The first kind of gap that is not needed as a whole; behind the last there is none.
    at = np.searchsorted(total_j[1:], wanted_j)
    missing_j = wanted_j - total_j[at]
    return sleeps[at] + np.where(missing_j > 0, np.ceil(missing_j / each_j[at]), 0)
