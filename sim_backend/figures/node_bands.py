"""How much of a machine does what over time: runs jobs, idles, changes its state, sleeps in each depth, has failed."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from sim_backend.figures.power_curve import PowerCurve
from sim_backend.nodes.node_log import Int32, StateCounts

RUNNING, IDLE, CHANGING, HUNG, FIRST_DEPTH = range(5)
BANDS = FIRST_DEPTH + len(DEPTHS)
"""Running, idle, on the way into or out of a depth, failed, and asleep in each depth from shallow to deep."""


@dataclass(frozen=True)
class NodeBands:
    """From `edges_s[i]` to `edges_s[i + 1]` so many allocation units are in each band: `units[band, i]`."""

    edges_s: Int64
    units: Int32


def node_bands(curve: PowerCurve, counts: StateCounts, *, units_per_node: int) -> NodeBands:
    """Return the bands over the curve's pieces; curve and counts are those of one run."""
    piece = np.searchsorted(counts.at_s, curve.at_s, side="right") - 1
    of_state = units_per_node * counts.nodes[piece].T
    units = np.empty((BANDS, len(piece)), dtype=np.int32)
    units[RUNNING] = curve.busy
    units[IDLE] = of_state[ACTIVE] - curve.busy
    units[CHANGING] = sum(of_state[way(depth)] for depth in range(len(DEPTHS)) for way in (going_down, coming_up))
    units[HUNG] = of_state[FAILED]
    for depth in range(len(DEPTHS)):
        units[FIRST_DEPTH + depth] = of_state[asleep(depth)]
    return NodeBands(curve.edges_s, units)
