"""Cost day by day with the savings of each policy, and power, utilization and price by the hour of the day."""

from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.comparison.breakdown import Periods, cost_by_period, cost_periods
from sim_backend.comparison.figures import HOURS, clock_hours, mean_by_hour, mean_price_by_hour
from ui.report.figure import Figure, Json, axis, line, name_text, packed, scatter, time_axis
from ui.report.power_figure import PRICE_KEY
from ui.report.subject import ReportPolicy, ReportSubject


def cost_figure(subject: ReportSubject) -> Figure:
    """Return the baseline's cost as bars, and below it the savings of the other policies."""
    comparison = subject.comparison
    periods = cost_periods(comparison)
    baseline, *others = (
        cost_by_period(comparison, policy.run, periods, draw=policy.draw) for policy in subject.policies
    )
    savings = [
        _bars(subject, policy, periods, baseline - cost) | {"yaxis": "y2"}
        for policy, cost in zip(subject.others, others, strict=True)
    ]
    first = subject.policies[0]
    currency = comparison.outcomes[0].currency
    below = f", and what the others save of it (below 0: cost more){_note(periods)}" if savings else _note(periods)
    return Figure(
        name="cost",
        heading=f"Cost per {periods.unit}",
        summary=f"Cost of each {periods.unit} under {first.name}" + (" and the others' savings." if savings else "."),
        caption=f"What electricity costs in each {periods.unit} under {first.name}{below}.",
        keys=tuple(replace(policy.key, is_area=True) for policy in subject.policies),
        data=[_bars(subject, first, periods, baseline), *savings],
        layout={
            "height": 440 if savings else 300,
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


SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
EVERY_THIRD = [hour for hour in range(HOURS + 1) if hour % 3 == 0]


def hours_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    comparison = subject.comparison
    laid = comparison.case.prices.laid
    hours = clock_hours(laid, comparison.begin_s, comparison.until_s)
    traces = []
    for policy in subject.policies:
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
        caption="Time-weighted means over the whole period on the log's local clock, exact. A point at 9:30 is the "
        "mean of the hour from 9:00 to 10:00. The vertical axes do not begin at 0.",
        keys=(*(policy.key for policy in subject.policies), PRICE_KEY),
        data=[*traces, _price_trace(mean_price_by_hour(hours, laid), laid.series.unit)],
        layout={
            "height": 520,
            "xaxis": axis(
                "hour of the day",
                anchor="y3",
                range=[0, HOURS],
                showline=True,
                tickvals=EVERY_THIRD,
                unifiedhovertitle={"text": "middle of the hour: %{x}"},
            ),
            "yaxis": axis(f"power [{subject.power_unit}]", domain=[0.56, 1]),
            "yaxis2": axis("in use [%]", domain=[0.28, 0.5]),
            "yaxis3": axis(laid.series.unit, domain=[0, 0.22]),
        },
    )


def _hour_trace(policy: ReportPolicy, value: Float64, hover: str) -> Json:
    points = packed(np.arange(HOURS) + 0.5), packed(value)
    marker = {"symbol": SYMBOLS[policy.number % len(SYMBOLS)], "size": 6}
    look: Json = {"mode": "lines+markers", "line": line(policy.key), "marker": marker}
    return scatter(*points, name=policy.name, hover=hover, **look)


def _price_trace(price: Float64, unit: str) -> Json:
    """Return the price as steps at the full hours; its points are in their middle, as those of the policies."""
    x, y = np.concatenate([[0], np.arange(HOURS) + 0.5, [HOURS]]), np.concatenate([price[:1], price, price[-1:]])
    look: Json = {"line": line(PRICE_KEY) | {"shape": "hvh", "width": 1.5}, "yaxis": "y3"}
    return scatter(packed(x), packed(y), name="price", hover=f"%{{y:.2f}} {name_text(unit)}", **look)
