"""The trade-off of each policy: idle energy saved against slowdown, or against jobs delayed by sleeping nodes; and its
cost by month and by the hour of the day.

Labels of points are beside the figure, each with a line to its point, and do not overlap.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpeak.display import duration_text, money_text, percent_text
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.sim_backend.comparison.breakdown import Periods, cost_by_period, cost_periods
from offpeak.sim_backend.comparison.figures import HOURS, clock_hours, mean_by_hour, mean_price_by_hour, pareto_front
from offpeak.ui.report.figure import Figure, Json, Key, axis, line, name_text, packed, scatter, time_axis
from offpeak.ui.report.power_figure import PRICE_KEY
from offpeak.ui.report.subject import ReportPolicy, ReportSubject


def cost_figure(subject: ReportSubject) -> Figure:
    """Return the baseline's cost as bars, and below it the savings of the other policies."""
    comparison = subject.comparison
    periods = cost_periods(comparison)
    first = subject.policies[0]
    savings = []
    for policy in subject.others:
        own, runs = periods.until(policy.run.usage.until_s), (comparison.baselines[policy.number], policy.run)
        before, after = (cost_by_period(comparison.case, run, own) for run in runs)
        savings.append(_bars(subject, policy, own, before - after) | {"yaxis": "y2"})
    whole = periods.until(first.run.usage.until_s)
    baseline = cost_by_period(comparison.case, first.run, whole)
    currency = comparison.outcomes[0].currency
    below = f", and what the others save (below 0: they cost more){_note(periods)}" if savings else _note(periods)
    return Figure(
        name="cost",
        heading=f"Cost per {periods.unit}",
        summary=f"Cost of each {periods.unit} under {first.name}"
        + (" and the others' savings. " if savings else ". ")
        + "; ".join(f"{each.name}: {money_text(each.outcome.cost, currency)} in all" for each in subject.policies),
        caption=f"Cost of the electricity of each {periods.unit} under {first.name}{below}.",
        keys=tuple(replace(policy.key, is_area=True) for policy in subject.policies),
        data=[_bars(subject, first, whole, baseline), *savings],
        layout={
            "height": 330 if savings else 260,
            "barmode": "group",
            "bargap": 0.15,
            "xaxis": time_axis(anchor="y2" if savings else "y"),
            "yaxis": axis(f"cost [{currency}]", domain=[0.52, 1] if savings else [0, 1], rangemode="tozero"),
        }
        | ({"yaxis2": axis(f"saved [{currency}]", domain=[0, 0.44]) | _ZERO_LINE} if savings else {}),
    )


_ZERO_LINE: Json = {"zeroline": True, "zerolinecolor": "var(--axis)"}


def _note(periods: Periods) -> str:
    return "" if periods.unit == "day" or len(periods.edges_s) < 3 else "; the first and the last may be cut"


def _bars(subject: ReportSubject, policy: ReportPolicy, periods: Periods, money: Float64) -> Json:
    from_s, until_s = periods.edges_s[:-1], periods.edges_s[1:]
    begins = [subject.calendar.day_text(second) for second in from_s.tolist()]
    return {
        "type": "bar",
        "name": name_text(policy.name),
        "x": packed(subject.calendar.axis_ms((from_s + until_s) / 2), "f8"),
        "y": packed(money),
        "text": begins if periods.unit == "day" else [f"{periods.unit} from {begin}" for begin in begins],
        "textposition": "none",
        "marker": {"color": policy.key.colour},
        "hovertemplate": "%{y:,.2f} saved" if policy.number else "%{y:,.2f}, %{text}",
    }


LINE_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
EVERY_FOURTH = [hour for hour in range(HOURS + 1) if hour % 4 == 0]


def hours_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    comparison = subject.comparison
    aligned = comparison.case.prices.aligned
    clocks = [clock_hours(aligned, each.run.usage.begin_s, each.run.usage.until_s) for each in subject.policies]
    traces = []
    for policy, hours in zip(subject.policies, clocks, strict=True):
        power = mean_by_hour(hours, policy.curve, policy.curve.total_w) / subject.power_unit_w
        busy = mean_by_hour(hours, policy.curve, policy.curve.busy.astype(np.float64))
        traces += [
            _hour_trace(policy, power, f"%{{y:.4~g}} {subject.power_unit}"),
            _hour_trace(policy, 100 * busy / comparison.case.machine.size, "%{y:.1f} %") | {"yaxis": "y2"},
        ]
    return Figure(
        name="hours",
        heading="Power by the hour of the day",
        summary="Mean power, utilization and price for each hour of the day, a line for each policy.",
        caption="Time-weighted means over the whole period on the log's local clock, exact. A point at 09:30 is the "
        "mean of the hour from 09:00 to 10:00. The vertical axes do not begin at 0.",
        keys=(*(policy.key for policy in subject.policies), PRICE_KEY),
        data=[*traces, _price_trace(mean_price_by_hour(clocks[0], aligned), aligned.series.unit)],
        layout={
            "height": 410,
            "xaxis": axis(
                "hour of the day",
                anchor="y3",
                range=[0, HOURS],
                showline=True,
                tickvals=EVERY_FOURTH,
                ticktext=[f"{hour:02}:00" for hour in EVERY_FOURTH],
                unifiedhovertitle={"text": "mean of the hour around %{x}"},
            ),
            "yaxis": axis(f"power [{subject.power_unit}]", domain=[0.56, 1]),
            "yaxis2": axis("in use [%]", domain=[0.28, 0.5]),
            "yaxis3": axis(aligned.series.unit, domain=[0, 0.22]),
        },
    )


def _hour_trace(policy: ReportPolicy, value: Float64, hover: str) -> Json:
    points = packed(np.arange(HOURS) + 0.5), packed(value)
    marker = {"symbol": LINE_SYMBOLS[policy.number % len(LINE_SYMBOLS)], "size": 6}
    look: Json = {"mode": "lines+markers", "line": line(policy.key), "marker": marker}
    return scatter(*points, name=policy.name, hover=hover, **look)


def _price_trace(price: Float64, unit: str) -> Json:
    """Return the price as steps at the full hours; its points are in their middle, as those of the policies."""
    x, y = np.concatenate([[0], np.arange(HOURS) + 0.5, [HOURS]]), np.concatenate([price[:1], price, price[-1:]])
    look: Json = {"line": line(PRICE_KEY) | {"shape": "hvh", "width": 1.5}, "yaxis": "y3"}
    return scatter(packed(x), packed(y), name="price", hover=f"%{{y:.2f}} {name_text(unit)}", **look)


CHARACTER_PX = 7.4
ROW_PX = 16
"""Room for a line of the figures' font; in print both are smaller."""


def label_heights(y: Float64, *, low: float, high: float, gap: float) -> Float64:
    """Return where labels of points at `y` lie: near them, within low..high, in their order and `gap` apart.

    Where they are too many for that, they share the room evenly.
    """
    gap = min(gap, (high - low) / max(len(y) - 1, 1))
    order = np.argsort(y, kind="stable")
    offset = gap * np.arange(len(y))
    # Without the gaps the labels may touch: pushed up by those below them, then held below the top.
    pushed = np.maximum.accumulate(np.maximum(y[order] - offset, low))
    heights = np.empty(len(y))
    heights[order] = np.minimum(pushed, high - offset[-1:]) + offset
    return heights


def label_margin_px(names: list[str]) -> int:
    """Return how wide the right margin must be."""
    return 16 + round(CHARACTER_PX * max(map(len, names)))


def labels(names: list[str], heights: Float64) -> list[Json]:
    """Return the names as plotly's annotations at the right edge, at those heights of the vertical axis."""
    look: Json = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "showarrow": False}
    return [look | {"y": y, "text": name_text(name)} for name, y in zip(names, heights.tolist(), strict=True)]


MOST_TICKS = 6
STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1800, HOUR_S, 3 * HOUR_S, DAY_S)


@dataclass(frozen=True)
class Loss:
    """The cost side of the trade-off: its name, each policy's value, and the axis with its ends."""

    name: str
    value: Float64
    left: float
    right: float
    axis: Json


def slowdown_loss(subject: ReportSubject) -> Loss:
    """Return the mean slowdown of each policy, on a logarithmic axis."""
    value = np.array([policy.outcome.mean_bounded_slowdown_by_delay for policy in subject.policies])
    left, right = float(value.min() / 1.25), float(value.max() * 1.25)
    ends = [float(np.log10(left)), float(np.log10(right))]
    # The ticks that plotly chooses for less than a decade are not in one row.
    ticks = few_ticks(left, right)
    look = _axis("mean slowdown", ends, type="log", tickvals=ticks, ticktext=[f"{tick:,.15g}" for tick in ticks])
    return Loss("mean slowdown", value, left, right, look)


def few_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between the ends, with enough distance on a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for digits in ((1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def delay_loss(subject: ReportSubject) -> Loss:
    """Return how long sleeping nodes keep a job from running on average."""
    value = np.array([policy.sleep.figures.mean_boot_delay_s for policy in subject.policies])
    right = 1.06 * max(float(value.max()), 1.0)
    step_s = next((each for each in STEPS_S if right / each <= MOST_TICKS), STEPS_S[-1])
    ticks = np.arange(0, right, step_s).tolist()
    look = _axis("mean delay", [-0.04 * right, right], tickvals=ticks, ticktext=[duration_text(tick) for tick in ticks])
    return Loss("mean delay by sleep", value, -0.04 * right, right, look)


def _axis(title: str, ends: list[float], **more: Any) -> Json:
    look: Json = {"showline": True, "ticks": "outside", "fixedrange": True}
    return axis(title, range=ends, uirevision=title, **look, **more)


FRONT_KEY = Key("no policy is better in both", "var(--text)")
POSSIBLE_KEY = Key("possible if the future were known", "var(--muted)", "8 4")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star")
HEIGHT_PX, MARGIN_TOP_PX, MARGIN_BOTTOM_PX = 390, 30, 48
SMALLEST_PX, GROWTH_PX = 9, 10


def trade_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it as points."""
    saved = np.array([policy.sleep.figures.idle_saved_pct for policy in subject.policies])
    possible = np.array([possible_saving_pct(policy) for policy in subject.policies])
    names = short_names([policy.name for policy in subject.policies])
    low, high = min(float(saved.min()), 0.0) - 4, max(float(np.append(saved, possible).max()), 10.0) + 4
    room_px = HEIGHT_PX - MARGIN_TOP_PX - MARGIN_BOTTOM_PX
    heights = label_heights(saved, low=low + 2, high=high - 2, gap=(high - low) * ROW_PX / room_px)
    losses = (slowdown_loss(subject), delay_loss(subject))
    return Figure(
        name="trade",
        heading="What each policy trades",
        summary="Idle energy saved over slowdown or delay, a point for each policy.",
        caption="Up and left are better. A larger point means more power cycles. The dashed line is the possible "
        "saving with the same starts of jobs if the next use of each node were known.",
        keys=(FRONT_KEY, POSSIBLE_KEY),
        data=[
            trace | {"meta": {"choice": number}}
            for number, loss in enumerate(losses)
            for trace in _trade_traces(subject, loss, saved, heights)
        ],
        layout={
            "height": HEIGHT_PX,
            "margin": {"l": 56, "r": label_margin_px(names), "t": MARGIN_TOP_PX, "b": MARGIN_BOTTOM_PX},
            "hovermode": "closest",
            "yaxis": axis("idle energy saved [%]", range=[low, high], fixedrange=True),
            "annotations": labels(names, heights),
        },
        choices=tuple(loss.name for loss in losses),
        choice_of="horizontal axis",
        choice_layouts=tuple({"xaxis": loss.axis} for loss in losses),
    )


def possible_saving_pct(policy: ReportPolicy) -> float:
    """Return the share of idle nodes' energy that could have been saved with the policy's starts [%]."""
    always_on_j = policy.sleep.figures.always_on_idle_j
    return 100 * (always_on_j - policy.sleep.lowest_idle_j) / always_on_j if always_on_j else 0.0


def short_names(names: list[str]) -> list[str]:
    """Return the names of the capacity policies alone where the scheduling policy is the same in all."""
    disciplines = {name.partition(" ")[0] for name in names}
    return names if len(disciplines) > 1 else [name.partition(" ")[2] or "always-on" for name in names]


def _trade_traces(subject: ReportSubject, loss: Loss, saved: Float64, heights: Float64) -> list[Json]:
    """Return lines from the points to their labels, the possible saving, the front, and the points."""
    possible = np.array([possible_saving_pct(policy) for policy in subject.policies])
    gap = np.full(len(saved), np.nan)
    leaders = ([loss.value, np.full(len(saved), loss.right), gap], [saved, heights, gap])
    order, front = np.argsort(loss.value, kind="stable"), pareto_front(loss.value, saved)
    ordered = possible[order]
    possible_x = np.concatenate([[loss.left], loss.value[order], [loss.right]])
    possible_y = np.concatenate([ordered[:1], ordered, ordered[-1:]])
    front_x, front_y = np.append(loss.value[front], loss.right), np.append(saved[front], saved[front[-1:]])
    cycles = np.array([policy.sleep.figures.power_cycles_per_node_day for policy in subject.policies])
    marker = {
        "size": packed(SMALLEST_PX + GROWTH_PX * np.sqrt(cycles / max(float(cycles.max()), 1e-9))),
        "color": [policy.key.colour for policy in subject.policies],
        "symbol": [SYMBOLS[policy.number % len(SYMBOLS)] for policy in subject.policies],
        "line": {"width": 1, "color": "var(--card)"},
        "opacity": 1,
    }
    look: Json = {"mode": "markers", "text": [_point_text(policy) for policy in subject.policies], "marker": marker}
    points = scatter(packed(loss.value), packed(saved), hover="%{text}<extra></extra>", **look)
    return [
        scatter(
            *(packed(np.stack(ends, axis=1).ravel()) for ends in leaders), line={"color": "var(--rule)", "width": 1}
        ),
        scatter(packed(possible_x), packed(possible_y), line=line(POSSIBLE_KEY) | {"width": 1.5}),
        scatter(packed(front_x), packed(front_y), line=line(FRONT_KEY) | {"shape": "hv", "width": 1.5}),
        points,
    ]


def _point_text(policy: ReportPolicy) -> str:
    """Return the hover text of a point, as plotly's HTML."""
    figures, outcome = policy.sleep.figures, policy.outcome
    possible = percent_text(possible_saving_pct(policy), 1)
    lines = (
        name_text(policy.name),
        f"{percent_text(figures.idle_saved_pct, 1)} of idle energy saved, {possible} possible",
        f"mean slowdown {outcome.mean_bounded_slowdown_by_delay:,.2f}",
        f"mean delay by sleep {duration_text(figures.mean_boot_delay_s)}",
        f"{figures.power_cycles_per_node_day:.2f} cycles a node and day",
    )
    return "<br>".join(lines)
