"""The machine's power over time, exactly: it changes only where a job starts or ends."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.accounting import Usage
from offpeak.jobs import Float64, Int64


@dataclass(frozen=True)
class PowerCurve:
    """From `at_s[i]` on, `busy[i]` units draw `running_w[i]` and the others `idle_w[i]`; the last piece to `until_s`.

    Trace seconds, strictly rising. Of a period of no time there is no piece.
    """

    at_s: Int64
    until_s: int
    busy: Int64
    running_w: Float64
    idle_w: Float64

    @property
    def total_w(self) -> Float64:
        """What the whole machine draws [W]."""
        return self.running_w + self.idle_w

    @property
    def edges_s(self) -> Int64:
        """Where the pieces begin, and the end of the last."""
        return np.append(self.at_s, self.until_s)


def power_curve(usage: Usage) -> PowerCurve:
    """Return the curve over the period of `usage`, one piece between neighbouring starts and ends."""
    size = np.concatenate([usage.size, -usage.size])
    draw_w = size * np.tile(usage.node_power_w, 2)
    second = np.concatenate([usage.start_s, usage.end_s])
    at_s, at = np.unique(np.append(second, usage.begin_s), return_inverse=True)
    busy = np.cumsum(np.bincount(at[:-1], weights=size, minlength=len(at_s))).astype(np.int64)
    running_w: Float64 = np.cumsum(np.bincount(at[:-1], weights=draw_w, minlength=len(at_s))).astype(np.float64)
    # Sums of watts leave a trace of rounding where nothing runs.
    running_w[busy == 0] = 0.0
    idle_w: Float64 = usage.idle_w * (usage.machine_size - busy).astype(np.float64)
    return _taken(PowerCurve(at_s, usage.until_s, busy, running_w, idle_w), np.flatnonzero(at_s < usage.until_s))


def within(curve: PowerCurve, from_s: int, until_s: int) -> PowerCurve:
    """Return the part of the curve from `from_s` to `until_s`, which lie inside its period."""
    part = _taken(curve, np.flatnonzero((curve.at_s < until_s) & (curve.edges_s[1:] > from_s)))
    return replace(part, at_s=np.maximum(part.at_s, from_s), until_s=until_s)


def _taken(curve: PowerCurve, piece: Int64) -> PowerCurve:
    columns = {name: getattr(curve, name)[piece] for name in ("at_s", "busy", "running_w", "idle_w")}
    return replace(curve, **columns)


def integral_between(edges_s: Int64, value: Float64, at_s: Int64) -> Float64:
    """Return the integral of a step function between neighbours of `at_s`: float64[len(at_s) - 1], in its unit x s.

    `value[i]` holds from `edges_s[i]` to `edges_s[i + 1]`; nothing is counted outside.
    """
    total = np.append(0.0, np.cumsum(value * np.diff(edges_s)))
    return np.diff(np.interp(at_s, edges_s, total))


def extreme_pieces(edges_s: Int64, value: Float64, bins_s: Int64) -> Int64:
    """Return for each bin the pieces of its lowest and its highest value, in the order of time: int64[bins, 2].

    Neighbours of `bins_s` bound a bin; all lie within the edges of the step function. An unknown value (NaN) counts
    as the highest.
    """
    # Merged by a sort: finding the distinct ones, as union1d does, would take many times as long.
    at_s = np.sort(np.concatenate([edges_s[:-1], bins_s[:-1]]), kind="stable")
    at_s = at_s[(at_s >= bins_s[0]) & (at_s < bins_s[-1])]
    piece = np.searchsorted(edges_s, at_s, side="right") - 1
    of_bin = np.searchsorted(bins_s, at_s, side="right") - 1
    first = np.searchsorted(at_s, bins_s[:-1], side="left")
    known = np.where(np.isnan(value), np.inf, value)[piece]
    extremes = (ufunc.reduceat(known, first) for ufunc in (np.minimum, np.maximum))
    return np.sort(np.stack([_first_equal(known, each, of_bin, piece) for each in extremes], axis=1), axis=1)


def _first_equal(value: Float64, wanted: Float64, of_bin: Int64, piece: Int64) -> Int64:
    """Return for each bin the first piece that has the value wanted there."""
    equal = np.flatnonzero(value == wanted[of_bin])[::-1]
    found = np.empty(len(wanted), dtype=np.int64)
    # Of several entries for one bin the last is kept.
    found[of_bin[equal]] = piece[equal]
    return found
