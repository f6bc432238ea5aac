"""Step functions over time as traces: exact where there are few steps, else the extremes of equal stretches of time."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.prices.peak import Peak
from sim_backend.electricity import LaidSeries, ReplayPrices, peak_times
from sim_backend.figures import BusiestWindow, extreme_pieces
from sim_backend.nodes.power_curve import PowerCurve
from ui.report.calendar import Calendar
from ui.report.figure import Json, Key, packed
from ui.report.subject import Policy, Subject

IDLE_KEY = Key("idle nodes", "var(--idle)", is_area=True)
RUNNING_KEY = Key("running jobs", "var(--running)", is_area=True)
PRICE_KEY = Key("price", "var(--price)")
ON_PEAK_KEY = Key("on-peak", "var(--on-peak)", is_area=True)
WITHOUT_JOB_KEY = replace(IDLE_KEY, name="nodes without a job, asleep or not")

MOST_STEPS = 8_000
"""More steps than this are drawn as extremes: a screen has fewer columns, a browser is still quick."""

MOST_STRETCHES = 3_500
ALL_STRETCHES = 20_000
STRETCHES_S = (60, 300, 900, 1800, *(hours * 3600 for hours in (1, 2, 3, 6, 12, 24, 48, 168, 672)))


def share_of_stretches(subject: Subject, of_all: int = ALL_STRETCHES) -> int:
    """Return how many stretches a policy has where all policies have `of_all`.

    Where nodes sleep, policies are many: the file must stay small.
    """
    return min(MOST_STRETCHES, of_all // len(subject.policies)) if subject.can_sleep else MOST_STRETCHES


@dataclass(frozen=True)
class Steps:
    """Which pieces of a step function are drawn: piece `piece[i]` from `at_s[i]` to `at_s[i + 1]`.

    `stretches_s` is empty where that is all of it. Else the pieces are the lowest and the highest of each stretch of
    time, in their order, for half of it each; its entries are the length of a stretch outside and inside the time that
    was asked for in detail.
    """

    at_s: Int64
    piece: Int64
    stretches_s: tuple[int, ...] = ()


def steps_of(
    edges_s: Int64, value: Float64, detail: BusiestWindow | None = None, *, most_stretches: int = MOST_STRETCHES
) -> Steps:
    """Return the steps that are drawn of the function that is `value[i]` from `edges_s[i]` to `edges_s[i + 1]`."""
    if len(value) <= most_steps(most_stretches):
        return Steps(edges_s, np.arange(len(value)))
    bins_s, stretches_s = stretches_of(edges_s, detail, most_stretches=most_stretches)
    at_s = np.append(np.stack([bins_s[:-1], (bins_s[:-1] + bins_s[1:]) // 2], axis=1).ravel(), edges_s[-1])
    return Steps(at_s, extreme_pieces(edges_s, value, bins_s).ravel(), stretches_s)


def most_steps(most_stretches: int) -> int:
    """Return how many steps are drawn exactly where so many stretches would be drawn otherwise."""
    return MOST_STEPS * most_stretches // MOST_STRETCHES


def stretches_of(edges_s: Int64, detail: BusiestWindow | None, *, most_stretches: int) -> tuple[Int64, tuple[int, ...]]:
    """Return the edges of stretches of time, and how long these are: in all, and in detail if that is shorter.

    There are at most so many of either length.
    """
    begin_s, until_s = int(edges_s[0]), int(edges_s[-1])
    coarse_s = _stretch_s(until_s - begin_s, most_stretches)
    bins_s = np.append(np.arange(begin_s, until_s, coarse_s), until_s)
    if detail is None or (fine_s := _stretch_s(detail.until_s - detail.from_s, most_stretches)) >= coarse_s:
        return bins_s, (coarse_s,)
    inner = np.append(np.arange(detail.from_s, detail.until_s, fine_s), detail.until_s)
    return np.union1d(bins_s[(bins_s < detail.from_s) | (bins_s > detail.until_s)], inner), (coarse_s, fine_s)


def _stretch_s(length_s: int, most: int) -> int:
    return next((stretch_s for stretch_s in STRETCHES_S if length_s / stretch_s <= most), STRETCHES_S[-1])


def power_keys(subject: Subject) -> tuple[Key, ...]:
    """Return the legend of power and price."""
    return (RUNNING_KEY, WITHOUT_JOB_KEY if subject.can_sleep else IDLE_KEY, PRICE_KEY, ON_PEAK_KEY)


def power_traces(subject: Subject, policy: Policy, curve: PowerCurve, steps: Steps) -> list[Json]:
    """Return the areas of the whole machine's power and, over it, that of the running jobs."""
    whole = "whole machine" if subject.can_sleep else "with idle nodes"
    areas = ((whole, curve.total_w, IDLE_KEY), ("running jobs", curve.running_w, RUNNING_KEY))
    return [
        step_trace(subject.calendar, steps, value / subject.power_unit_w)
        | {
            "name": name,
            "fill": "tozeroy",
            "fillcolor": key.colour,
            "line": {"shape": "hv", "width": 1, "color": key.colour},
            "hovertemplate": f"%{{y:.4~g}} {subject.power_unit}",
            "meta": {"choice": policy.number},
        }
        for name, value, key in areas
    ]


def step_trace(calendar: Calendar, steps: Steps, value: Float64) -> Json:
    """Return a trace of the steps."""
    drawn = value[steps.piece]
    # The last value is held to the end.
    x, y = packed(calendar.axis_ms(steps.at_s), "f8"), packed(np.append(drawn, drawn[-1:]))
    return {"type": "scatter", "mode": "lines", "x": x, "y": y}


def price_edges(laid: LaidSeries, window: BusiestWindow) -> tuple[Int64, Float64]:
    """Return the prices of a window as a step function on the trace's clock; NaN where unknown."""
    from_s, until_s = window.from_s, window.until_s
    series = laid.series
    at_s = series.start_s - laid.offset_s
    first = max(int(np.searchsorted(at_s, from_s, side="right")) - 1, 0)
    beyond = max(int(np.searchsorted(at_s, until_s, side="left")), first + 1)
    edges_s = np.append(np.maximum(at_s[first:beyond], from_s), max(until_s, from_s + 1))
    return edges_s, series.value[first:beyond]


def peak_trace(prices: ReplayPrices, calendar: Calendar, window: BusiestWindow) -> Json:
    """Return the shading of the on-peak hours, for an axis that goes from 0 to 1."""
    from_s, until_s = window.from_s, window.until_s
    peaks = peak_times(prices)
    inside = (peaks.at_s > from_s) & (peaks.at_s < until_s)
    first = max(int(np.searchsorted(peaks.at_s, from_s, side="right")) - 1, 0)
    at_s = np.concatenate([[from_s], peaks.at_s[inside], [until_s]])
    on_peak = np.concatenate([peaks.peak[[first]], peaks.peak[inside], [Peak.OFF_PEAK]]) == Peak.ON_PEAK
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(calendar.axis_ms(at_s), "f8"),
        "y": packed(on_peak, "i1"),
        "line": {"shape": "hv", "width": 0},
        "fill": "tozeroy",
        "fillcolor": ON_PEAK_KEY.colour,
        "hoverinfo": "skip",
    }
