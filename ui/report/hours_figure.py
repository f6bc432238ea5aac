"""Average power, utilization and price by the hour of the day: does the machine draw less when electricity is dear?"""

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.figures import HOURS, clock_hours, mean_by_hour, mean_price_by_hour
from ui.report.figure import Figure, Json, axis, line, name_text, packed
from ui.report.subject import Policy, Subject
from ui.report.time_steps import PRICE_KEY

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
EVERY_THIRD = [hour for hour in range(HOURS + 1) if hour % 3 == 0]


def hours_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it."""
    comparison = subject.comparison
    laid = comparison.case.prices.laid
    hours = clock_hours(laid, comparison.begin_s, comparison.until_s)
    traces = []
    for policy in subject.policies:
        power = mean_by_hour(hours, policy.curve, policy.curve.total_w) / subject.power_unit_w
        busy = mean_by_hour(hours, policy.curve, policy.curve.busy.astype(np.float64))
        traces += [
            _trace(policy, power, f"%{{y:.4~g}} {subject.power_unit}"),
            _trace(policy, 100 * busy / comparison.case.machine.size, "%{y:.1f} %") | {"yaxis": "y2"},
        ]
    return Figure(
        name="hours",
        heading="Power by the hour of the day",
        summary="Mean power, utilization and price for each hour of the day, a line for each policy.",
        caption="Time-weighted means over the whole period on the log's local clock, exact. A point at 9:30 stands for "
        "the hour from 9:00 to 10:00. The vertical axes do not begin at 0.",
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


def _trace(policy: Policy, value: Float64, hover: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name_text(policy.name),
        "x": packed(np.arange(HOURS) + 0.5),
        "y": packed(value),
        "line": line(policy.key),
        "marker": {"symbol": SYMBOLS[policy.number % len(SYMBOLS)], "size": 6},
        "hovertemplate": hover,
    }


def _price_trace(price: Float64, unit: str) -> Json:
    """Return the price as steps at the full hours; its points are in their middle, as those of the policies."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "price",
        "x": packed(np.concatenate([[0], np.arange(HOURS) + 0.5, [HOURS]])),
        "y": packed(np.concatenate([price[:1], price, price[-1:]])),
        "line": line(PRICE_KEY) | {"shape": "hvh", "width": 1.5},
        "hovertemplate": f"%{{y:.2f}} {name_text(unit)}",
        "yaxis": "y3",
    }
