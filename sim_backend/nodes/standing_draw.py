"""What nodes draw besides their jobs, over time: a step function between the entries of a node log."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE
from offpeak.model.step_integrals import StepIntegral, integrals
from sim_backend.nodes.node_log import StateCounts


@dataclass(frozen=True)
class StandingDraw:
    """From `at_s[i]` on, active nodes have `active_units[i]` units and all other nodes together draw `inactive_w[i]`.

    Trace seconds, strictly rising; the first is the begin of the period that was asked for.
    """

    at_s: Int64
    active_units: Int64
    inactive_w: Float64


def standing_draw(counts: StateCounts, node_class: NodeClass, *, units_per_node: int) -> StandingDraw:
    """Return the draw of nodes of that class, so many of them in each state."""
    state_w = node_class.state_w()
    state_w[ACTIVE] = 0.0
    active_units = counts.nodes[:, ACTIVE].astype(np.int64) * units_per_node
    return StandingDraw(counts.at_s, active_units, counts.nodes @ state_w)


def standing_charge(draw: StandingDraw, idle_w: float, edges_s: Int64, meter: StepIntegral) -> Float64:
    """Return what the nodes would use if none ran a job, between neighbouring edges: float64[len(edges_s) - 1].

    It is the integral of power times the meter's series; an idle unit draws `idle_w`. The draw holds at all edges.
    """
    cut_s = np.sort(np.concatenate([draw.at_s[(draw.at_s > edges_s[0]) & (draw.at_s < edges_s[-1])], edges_s]))
    piece = np.searchsorted(draw.at_s, cut_s[:-1], side="right") - 1
    power_w = idle_w * draw.active_units[piece] + draw.inactive_w[piece]
    used = power_w * integrals(meter, cut_s[:-1], cut_s[1:])
    between = np.searchsorted(edges_s, cut_s[:-1], side="right") - 1
    return np.bincount(between, weights=used, minlength=len(edges_s) - 1)[: len(edges_s) - 1].astype(np.float64)
