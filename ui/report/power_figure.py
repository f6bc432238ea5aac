"""The machine's power and the price over the whole period, one policy at a time."""

import numpy as np

from offpeak.model.local_time import DAY_S
from sim_backend.figures import BusiestWindow
from ui.report.figure import Figure, Json, axis, line, name_text, time_axis
from ui.report.subject import Subject
from ui.report.time_steps import (
    PRICE_KEY,
    Steps,
    peak_trace,
    power_keys,
    power_traces,
    price_edges,
    share_of_stretches,
    step_trace,
    steps_of,
)

SHOWN_AT_FIRST_S = 28 * DAY_S
HIDDEN_AXIS: Json = {"range": [0, 1], "fixedrange": True, "visible": False}


def power_figure(subject: Subject, busiest: BusiestWindow) -> Figure:
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
        summary=f"Power of running jobs and {rest}, and the price below it, under {_names(subject)}.",
        caption=f"{_exactness(drawn[0], price_steps)} Shaded: on-peak. The dates are those of the prices on which the "
        f"log is laid; the clock is {subject.calendar.clock_text} throughout.",
        keys=power_keys(subject),
        data=[*traces, price, *shading(subject, whole)],
        layout={
            "height": 470,
            "xaxis": time_axis(range=views["four busy weeks"]["xaxis.range"], anchor="y2"),
            "yaxis": axis(f"power [{subject.power_unit}]", domain=[0.4, 1], rangemode="tozero"),
            "yaxis2": axis(
                subject.comparison.case.prices.laid.series.unit,
                domain=[0, 0.34],
                range=views["four busy weeks"]["yaxis2.range"],
            ),
            "yaxis3": HIDDEN_AXIS | {"overlaying": "y"},
            "yaxis4": HIDDEN_AXIS | {"overlaying": "y2"},
        },
        choices=tuple(policy.name for policy in subject.policies),
        views=views if first != whole else None,
    )


def price_trace(subject: Subject, window: BusiestWindow, detail: BusiestWindow | None = None) -> tuple[Json, Steps]:
    """Return the price as a line on the second vertical axis, and what of it is drawn."""
    laid = subject.comparison.case.prices.laid
    edges_s, value = price_edges(laid, window)
    steps = steps_of(edges_s, value, detail)
    look = {
        "name": "price",
        "yaxis": "y2",
        "line": line(PRICE_KEY) | {"shape": "hv", "width": 1.2},
        "hovertemplate": f"%{{y:.2f}} {name_text(laid.series.unit)}",
    }
    return step_trace(subject.calendar, steps, value) | look, steps


def shading(subject: Subject, window: BusiestWindow) -> list[Json]:
    """Return the on-peak hours over both rows: vertical axes 3 and 4 lie over 1 and 2."""
    on_peak = peak_trace(subject.comparison.case.prices, subject.calendar, window)
    return [on_peak | {"yaxis": "y3"}, on_peak | {"yaxis": "y4"}]


def first_shown(busiest: BusiestWindow, whole: BusiestWindow) -> BusiestWindow:
    """Return four weeks with the busiest stretch in their middle, if the whole is much longer."""
    if whole.until_s - whole.from_s <= SHOWN_AT_FIRST_S * 5 // 4:
        return whole
    from_s = (busiest.from_s + busiest.until_s - SHOWN_AT_FIRST_S) // 2
    from_s = min(max(from_s, whole.from_s), whole.until_s - SHOWN_AT_FIRST_S)
    return BusiestWindow(from_s, from_s + SHOWN_AT_FIRST_S)


def _view(subject: Subject, window: BusiestWindow) -> Json:
    """Return what shows a window: its time and its prices, which differ more between years than between hours."""
    _, price = price_edges(subject.comparison.case.prices.laid, window)
    known = price[~np.isnan(price)]
    low, high = min(known.min(initial=0.0), 0.0), max(known.max(initial=0.0), 1.0)
    margin = 0.05 * (high - low)
    times = subject.calendar.axis_range(window.from_s, window.until_s)
    return {"xaxis.range": times, "yaxis2.range": [float(low - margin), float(high + margin)]}


def _exactness(power: Steps, price: Steps) -> str:
    if power.stretches_s == price.stretches_s:
        return f"Power and price are {_drawn(power)}."
    return f"The power is {_drawn(power)}, the price {_drawn(price)}."


def _drawn(steps: Steps) -> str:
    """Say how exact the drawing of the steps is."""
    if not steps.stretches_s:
        return "exact"
    return f"drawn as min and max of each {stretches_text(steps.stretches_s)}, in the order in which they came"


def stretches_text(stretches_s: tuple[int, ...]) -> str:
    """Say how long the stretches are: in all, and in the weeks that are shown at first."""
    inside = f" ({_length(stretches_s[1])} in the four busy weeks)" if len(stretches_s) > 1 else ""
    return f"{_length(stretches_s[0])}{inside}"


def _length(stretch_s: int) -> str:
    if stretch_s < 3600:
        return f"{stretch_s // 60} minutes"
    return "hour" if stretch_s == 3600 else f"{stretch_s // 3600} hours"


def _names(subject: Subject) -> str:
    return ", ".join(policy.name for policy in subject.policies)
