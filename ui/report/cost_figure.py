"""What the electricity costs day by day, and what each policy saves of it."""

from dataclasses import replace

from offpeak.model.arrays import Float64
from sim_backend.breakdown import Periods, cost_by_period, cost_periods
from ui.report.figure import Figure, Json, axis, name_text, packed, time_axis
from ui.report.subject import Policy, Subject


def cost_figure(subject: Subject) -> Figure:
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


def _bars(subject: Subject, policy: Policy, periods: Periods, money: Float64) -> Json:
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
