"""The machine's power and the price over the whole period, one policy at a time.

Step functions over time are exact where there are few steps, else the extremes of equal stretches of time.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.prices.peak import Peak
from offpeak.sim_backend.case.electricity import AlignedSeries, peak_times
from offpeak.sim_backend.case.replay_case import ReplayCase
from offpeak.sim_backend.comparison.figures import BusiestWindow, extreme_pieces
from offpeak.sim_backend.nodes.power_curve import PowerCurve
from offpeak.ui.report.figure import Figure, Json, Key, axis, line, name_text, packed, scatter, time_axis
from offpeak.ui.report.subject import Calendar, ReportPolicy, ReportSubject

IDLE_KEY = Key("idle nodes", "var(--on)", is_area=True)
RUNNING_KEY = Key("running jobs", "var(--busy)", is_area=True)
PRICE_KEY = Key("price", "var(--price)")
ON_PEAK_KEY = Key("on-peak", "var(--peak)", is_area=True)
WITHOUT_JOB_KEY = replace(IDLE_KEY, name="nodes without a job, asleep or not")

MOST_STEPS = 8_000
"""More steps than this are drawn as extremes: a screen has fewer columns, a browser is still quick."""

MOST_STRETCHES = 3_500
ALL_STRETCHES = 20_000
STRETCHES_S = (60, 300, 900, 1800, *(hours * HOUR_S for hours in (1, 2, 3, 6, 12, 24, 48, 168, 672)))


def share_of_stretches(subject: ReportSubject, of_all: int = ALL_STRETCHES) -> int:
    """Return a policy's number of stretches, `of_all` policies together: with many the file must stay small."""
    return min(MOST_STRETCHES, of_all // len(subject.policies)) if subject.can_sleep else MOST_STRETCHES


@dataclass(frozen=True)
class DrawnSteps:
    """Which pieces of a step function are drawn: piece `piece[i]` from `at_s[i]` to `at_s[i + 1]`.

    `stretches_s` is empty if all pieces are drawn. Else the pieces are the lowest and the highest value of each stretch
    of time, in order, for half of it each; its entries are the lengths of a stretch outside and inside the detailed
    time.
    """

    at_s: Int64
    piece: Int64
    stretches_s: tuple[int, ...] = ()


def steps_of(
    edges_s: Int64, value: Float64, detail: BusiestWindow | None = None, *, most_stretches: int = MOST_STRETCHES
) -> DrawnSteps:
    """Return the steps that are drawn of the function that is `value[i]` from `edges_s[i]` to `edges_s[i + 1]`."""
    if len(value) <= most_steps(most_stretches):
        return DrawnSteps(edges_s, np.arange(len(value)))
    bins_s, stretches_s = stretches_of(edges_s, detail, most_stretches=most_stretches)
    at_s = np.append(np.stack([bins_s[:-1], (bins_s[:-1] + bins_s[1:]) // 2], axis=1).ravel(), edges_s[-1])
    return DrawnSteps(at_s, extreme_pieces(edges_s, value, bins_s).ravel(), stretches_s)


def most_steps(most_stretches: int) -> int:
    """Return the number of steps that are drawn exactly instead of as stretches."""
    return MOST_STEPS * most_stretches // MOST_STRETCHES


def stretches_of(edges_s: Int64, detail: BusiestWindow | None, *, most_stretches: int) -> tuple[Int64, tuple[int, ...]]:
    """Return the edges of stretches of time, and how long these are: in all, and in detail if that is shorter.

    There are at most `most_stretches` of either length.
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


def power_keys(subject: ReportSubject) -> tuple[Key, ...]:
    """Return the legend of power and price."""
    return (RUNNING_KEY, WITHOUT_JOB_KEY if subject.can_sleep else IDLE_KEY, PRICE_KEY, ON_PEAK_KEY)


def power_traces(subject: ReportSubject, policy: ReportPolicy, curve: PowerCurve, steps: DrawnSteps) -> list[Json]:
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


def step_trace(calendar: Calendar, steps: DrawnSteps, value: Float64) -> Json:
    """Return a trace of the steps."""
    drawn = value[steps.piece]
    # The last value is held to the end.
    x, y = packed(calendar.axis_ms(steps.at_s), "f8"), packed(np.append(drawn, drawn[-1:]))
    return {"type": "scatter", "mode": "lines", "x": x, "y": y}


def price_edges(aligned: AlignedSeries, window: BusiestWindow) -> tuple[Int64, Float64]:
    """Return the prices of a window as a step function on the trace's clock; NaN where unknown."""
    from_s, until_s = window.from_s, window.until_s
    series = aligned.series
    at_s = series.start_s - aligned.offset_s
    first = max(int(np.searchsorted(at_s, from_s, side="right")) - 1, 0)
    beyond = max(int(np.searchsorted(at_s, until_s, side="left")), first + 1)
    edges_s = np.append(np.maximum(at_s[first:beyond], from_s), max(until_s, from_s + 1))
    return edges_s, series.value[first:beyond]


def peak_trace(case: ReplayCase, calendar: Calendar, window: BusiestWindow) -> Json:
    """Return the shading of the on-peak hours, for an axis that goes from 0 to 1."""
    from_s, until_s = window.from_s, window.until_s
    peaks = peak_times(case.prices, case.carbon)
    inside = (peaks.at_s > from_s) & (peaks.at_s < until_s)
    first = max(int(np.searchsorted(peaks.at_s, from_s, side="right")) - 1, 0)
    at_s = np.concatenate([[from_s], peaks.at_s[inside], [until_s]])
    on_peak = np.concatenate([peaks.peak[[first]], peaks.peak[inside], [Peak.OFF_PEAK]]) == Peak.ON_PEAK
    look: Json = {"line": {"shape": "hv", "width": 0}, "fill": "tozeroy", "fillcolor": ON_PEAK_KEY.colour}
    return scatter(packed(calendar.axis_ms(at_s), "f8"), packed(on_peak, "i1"), **look)


SHOWN_AT_FIRST_S = 28 * DAY_S
SHADED_AXIS: Json = {"range": [0, 1], "fixedrange": True, "visible": False}


def over_shading(shaded: int, title: str, **more: Any) -> Json:
    """Return an axis that is drawn over the shading on the axis of that number."""
    return axis(title, overlaying=f"y{shaded}", tickmode="auto", **more)


def power_figure(subject: ReportSubject, busiest: BusiestWindow) -> Figure:
    """Return the figure; of a long log it shows the four weeks around the busiest at first."""
    whole = BusiestWindow(subject.comparison.begin_s, subject.comparison.until_s)
    first = first_shown(busiest, whole)
    most = share_of_stretches(subject)
    drawn = [
        steps_of(policy.curve.edges_s, policy.curve.total_w, first, most_stretches=most) for policy in subject.policies
    ]
    traces = [
        trace
        for policy, steps in zip(subject.policies, drawn, strict=True)
        for trace in power_traces(subject, policy, policy.curve, steps)
    ]
    price, price_steps = price_trace(subject, whole, first)
    views = {"four busy weeks": _view(subject, first), "whole period": _view(subject, whole)}
    rest = "all other nodes" if subject.can_sleep else "idle nodes"
    return Figure(
        name="power",
        heading="Power over time",
        summary=f"Power of running jobs and {rest}, and the price below it. {_power_text(subject)}",
        caption=f"{_accuracy_text(drawn[0], price_steps)} "
        "Shaded: on-peak. The dates are those of the prices to which the "
        f"log is mapped; the clock is {subject.calendar.clock_text} throughout.",
        keys=power_keys(subject),
        data=[*traces, price, *shading(subject, whole)],
        layout={
            "height": 380,
            "xaxis": time_axis(range=views["four busy weeks"]["xaxis.range"], anchor="y2"),
            "yaxis": over_shading(3, f"power [{subject.power_unit}]", rangemode="tozero"),
            "yaxis2": over_shading(
                4, subject.comparison.case.prices.aligned.series.unit, range=views["four busy weeks"]["yaxis2.range"]
            ),
            "yaxis3": SHADED_AXIS | {"domain": [0.4, 1]},
            "yaxis4": SHADED_AXIS | {"domain": [0, 0.34]},
        },
        choices=tuple(policy.name for policy in subject.policies),
        shown=subject.cheapest,
        views=views if first != whole else None,
    )


def price_trace(
    subject: ReportSubject, window: BusiestWindow, detail: BusiestWindow | None = None
) -> tuple[Json, DrawnSteps]:
    """Return the price as a line on the second vertical axis, and its drawn part."""
    aligned = subject.comparison.case.prices.aligned
    edges_s, value = price_edges(aligned, window)
    steps = steps_of(edges_s, value, detail)
    look: Json = {
        "name": "price",
        "yaxis": "y2",
        "line": line(PRICE_KEY) | {"shape": "hv", "width": 1.2},
        "hovertemplate": f"%{{y:.2f}} {name_text(aligned.series.unit)}",
    }
    return step_trace(subject.calendar, steps, value) | look, steps


def shading(subject: ReportSubject, window: BusiestWindow) -> list[Json]:
    """Return the on-peak hours in both rows: vertical axes 3 and 4 lie behind 1 and 2."""
    on_peak = peak_trace(subject.comparison.case, subject.calendar, window)
    return [on_peak | {"yaxis": "y3"}, on_peak | {"yaxis": "y4"}]


def first_shown(busiest: BusiestWindow, whole: BusiestWindow) -> BusiestWindow:
    """Return four weeks with the busiest stretch in their middle, if the whole is much longer."""
    if whole.until_s - whole.from_s <= SHOWN_AT_FIRST_S * 5 // 4:
        return whole
    from_s = (busiest.from_s + busiest.until_s - SHOWN_AT_FIRST_S) // 2
    from_s = min(max(from_s, whole.from_s), whole.until_s - SHOWN_AT_FIRST_S)
    return BusiestWindow(from_s, from_s + SHOWN_AT_FIRST_S)


def _view(subject: ReportSubject, window: BusiestWindow) -> Json:
    """Return the axis ranges of a window: time, and prices, which differ more between years than between hours."""
    _, price = price_edges(subject.comparison.case.prices.aligned, window)
    known = price[~np.isnan(price)]
    low, high = min(known.min(initial=0.0), 0.0), max(known.max(initial=0.0), 1.0)
    margin = 0.05 * (high - low)
    times = subject.calendar.axis_range(window.from_s, window.until_s)
    return {"xaxis.range": times, "yaxis2.range": [float(low - margin), float(high + margin)]}


def _accuracy_text(power: DrawnSteps, price: DrawnSteps) -> str:
    """Return a note on the accuracy of the drawn steps."""
    if not (power.stretches_s or price.stretches_s):
        return "Power and price are exact."
    drawn = [
        f"drawn as min and max of each {stretches_text(steps.stretches_s)}" if steps.stretches_s else "exact"
        for steps in (power, price)
    ]
    return f"The power is {drawn[0]}, the price {drawn[1]}."


def stretches_text(stretches_s: tuple[int, ...]) -> str:
    """Return the length of the stretches: in total, and in the weeks shown at first."""
    inside = f" ({_length(stretches_s[1])} in the four busy weeks)" if len(stretches_s) > 1 else ""
    return f"{_length(stretches_s[0])}{inside}"


def _length(stretch_s: int) -> str:
    if stretch_s < HOUR_S:
        return f"{stretch_s // 60} minutes"
    return "hour" if stretch_s == HOUR_S else f"{stretch_s // HOUR_S} hours"


def _power_text(subject: ReportSubject) -> str:
    """Return the mean and the highest power of each policy, for who cannot see the figure."""
    parts = []
    for policy in subject.policies:
        watts = policy.curve.total_w
        mean_w = float(watts @ np.diff(policy.curve.edges_s)) / max(int(np.ptp(policy.curve.edges_s)), 1)
        mean, highest = (f"{each / subject.power_unit_w:,.2f} {subject.power_unit}" for each in (mean_w, watts.max()))
        parts.append(f"{policy.name}: {mean} on average, {highest} at most")
    return f"{'; '.join(parts)}."
