"""The machine's power over time, exactly: it changes only where a job starts or ends, or a node changes its state.

The standing draw is the power of nodes without their jobs: a step function between the entries of a node log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE
from offpeak.model.step_integrals import StepIntegral, Usage, integrals
from offpeak.sim_backend.nodes.node_log import StateCounts

LEAST_BUSY = 1e-9
"""Fewer busy units than this are none."""


@dataclass(frozen=True)
class StandingDraw:
    """From `at_s[i]` on, active nodes have `active_units[i]` units and all other nodes together draw `inactive_w[i]`.

    Trace seconds, strictly ascending; the first is the start of the requested period.
    """

    at_s: Int64
    active_units: Int64
    inactive_w: Float64


def standing_draw(counts: StateCounts, node_class: NodeClass, *, units_per_node: int) -> StandingDraw:
    """Return the draw of nodes of that class, by the number of nodes in each state."""
    state_w = node_class.state_w()
    state_w[ACTIVE] = 0.0
    active_units = counts.nodes[:, ACTIVE].astype(np.int64) * units_per_node
    return StandingDraw(counts.at_s, active_units, counts.nodes @ state_w)


def standing_charge(draw: StandingDraw, idle_w: float, edges_s: Int64, meter: StepIntegral) -> Float64:
    """Return what the nodes would use without jobs, between consecutive edges: float64[len(edges_s) - 1].

    It is the integral of power times the meter's series; an idle unit draws `idle_w`. The draw is defined at all edges.
    """
    cut_s = np.sort(np.concatenate([draw.at_s[(draw.at_s > edges_s[0]) & (draw.at_s < edges_s[-1])], edges_s]))
    piece = np.searchsorted(draw.at_s, cut_s[:-1], side="right") - 1
    power_w = idle_w * draw.active_units[piece] + draw.inactive_w[piece]
    used = power_w * integrals(meter, cut_s[:-1], cut_s[1:])
    between = np.searchsorted(edges_s, cut_s[:-1], side="right") - 1
    return np.bincount(between, weights=used, minlength=len(edges_s) - 1)[: len(edges_s) - 1].astype(np.float64)


@dataclass(frozen=True)
class PowerCurve:
    """From `at_s[i]` on, `busy[i]` units draw `running_w[i]` and the others `idle_w[i]`; the last piece to `until_s`.

    The others are idle units, and nodes that are asleep, in transition or failed. Trace seconds, strictly ascending. An
    empty period has no piece.
    """

    at_s: Int64
    until_s: int
    busy: Float64
    running_w: Float64
    idle_w: Float64

    @property
    def total_w(self) -> Float64:
        """The power of the whole machine [W]."""
        return self.running_w + self.idle_w

    @property
    def edges_s(self) -> Int64:
        """The starts of the pieces, and the end of the last one."""
        return np.append(self.at_s, self.until_s)


def power_curve(usage: Usage) -> PowerCurve:
    """Return the curve over the period of `usage`, with one piece between consecutive starts and ends."""
    size = np.concatenate([usage.size, -usage.size])
    draw_w = size * np.tile(usage.node_power_w, 2)
    second = np.concatenate([usage.start_s, usage.end_s])
    at_s, at = np.unique(np.append(second, usage.begin_s), return_inverse=True)
    busy: Float64 = np.cumsum(np.bincount(at[:-1], weights=size, minlength=len(at_s))).astype(np.float64)
    # Sums of shares of nodes leave rounding errors.
    busy[busy < LEAST_BUSY] = 0.0
    running_w: Float64 = np.cumsum(np.bincount(at[:-1], weights=draw_w, minlength=len(at_s))).astype(np.float64)
    # Sums of watts leave rounding errors while nothing runs.
    running_w[busy == 0] = 0.0
    idle_w: Float64 = usage.idle_w * (usage.machine_size - busy).astype(np.float64)
    return _taken(PowerCurve(at_s, usage.until_s, busy, running_w, idle_w), np.flatnonzero(at_s < usage.until_s))


def powered_curve(usage: Usage, draw: StandingDraw) -> PowerCurve:
    """Return the curve of a machine whose nodes have power states, with this draw besides the jobs."""
    jobs = power_curve(usage)
    at_s = np.sort(np.concatenate([jobs.at_s, draw.at_s[draw.at_s < usage.until_s]]), kind="stable")
    at_s = at_s[np.diff(at_s, append=usage.until_s) > 0]
    of_jobs, of_nodes = (np.searchsorted(each, at_s, side="right") - 1 for each in (jobs.at_s, draw.at_s))
    busy = jobs.busy[of_jobs]
    idle_w = usage.idle_w * (draw.active_units[of_nodes] - busy) + draw.inactive_w[of_nodes]
    return PowerCurve(at_s, usage.until_s, busy, jobs.running_w[of_jobs], idle_w)


def sum_of_curves(curves: Sequence[PowerCurve]) -> PowerCurve:
    """Return the power of several parts of a machine together; their curves are of the same period."""
    at_s = np.unique(np.concatenate([curve.at_s for curve in curves]))
    pieces = [np.searchsorted(curve.at_s, at_s, side="right") - 1 for curve in curves]

    def total(name: str) -> Float64:
        columns = [getattr(curve, name)[piece] for curve, piece in zip(curves, pieces, strict=True)]
        return np.sum(columns, axis=0)  # type: ignore[no-any-return]

    return PowerCurve(at_s, curves[0].until_s, total("busy"), total("running_w"), total("idle_w"))


def within(curve: PowerCurve, from_s: int, until_s: int) -> PowerCurve:
    """Return the part of the curve from `from_s` to `until_s`, which lie inside its period."""
    part = _taken(curve, np.flatnonzero((curve.at_s < until_s) & (curve.edges_s[1:] > from_s)))
    return replace(part, at_s=np.maximum(part.at_s, from_s), until_s=until_s)


def _taken(curve: PowerCurve, piece: Int64) -> PowerCurve:
    columns = {name: getattr(curve, name)[piece] for name in ("at_s", "busy", "running_w", "idle_w")}
    return replace(curve, **columns)
