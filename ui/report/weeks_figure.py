"""What sleeping nodes cost the jobs week by week: the share of them above the slowdown SLA, and the mean slowdown."""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.local_time import WEEK_S
from ui.report.figure import Figure, Json, Key, axis, line, name_text, packed, time_axis
from ui.report.subject import Policy, Subject

SLA_KEY = Key("SLA", "var(--price)", "2 3")
MARKED_BELOW = 60
"""Few weeks are marked by points: a week between two without jobs is no line."""


def weeks_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it."""
    middle = _middles(subject)
    traces = [
        trace
        for policy in subject.policies
        for trace in (
            _trace(policy, middle, 100 * policy.sleep.figures.weekly_violations, "%{y:.1f} %"),
            _trace(policy, middle, policy.sleep.figures.weekly_slowdown, "%{y:,.4~r}") | {"yaxis": "y2"},
        )
    ]
    sla = subject.comparison.case.sla
    return Figure(
        name="weeks",
        heading="What sleeping costs the jobs, week by week",
        summary=f"Share of jobs with a slowdown above {sla:g}, and mean slowdown, a line for each policy.",
        caption=f"Of the jobs that end in each week: the share whose slowdown, 1 + wait / max(10 s, run), is above the "
        f"SLA of {sla:g}, and the mean slowdown. Weeks count from the log's begin; the last may be cut.",
        keys=(*(policy.key for policy in subject.policies), SLA_KEY),
        data=[*traces, _sla_trace(subject, sla)],
        layout={
            "height": 460,
            "xaxis": time_axis(
                anchor="y2",
                range=subject.calendar.axis_range(subject.comparison.begin_s, subject.comparison.until_s),
                unifiedhovertitle={"text": "week around %{x|%Y-%m-%d}"},
            ),
            "yaxis": axis("above SLA [%]", domain=[0.55, 1], rangemode="tozero"),
            "yaxis2": axis("mean slowdown", domain=[0, 0.46], type="log", tickformat=",.4~r"),
        },
    )


def _middles(subject: Subject) -> Json:
    """Return the middle of each week as a date axis takes it; the last week ends with the period."""
    begin_s, until_s = subject.comparison.begin_s, subject.comparison.until_s
    from_s = np.arange(begin_s, until_s, WEEK_S)
    return packed(subject.calendar.axis_ms((from_s + np.minimum(from_s + WEEK_S, until_s)) / 2), "f8")


def _trace(policy: Policy, middle: Json, value: Float64, hover: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(value) < MARKED_BELOW else "lines",
        "name": name_text(policy.name),
        "x": middle,
        "y": packed(value),
        "line": line(policy.key) | {"width": 1.5},
        "marker": {"size": 4},
        "hovertemplate": hover,
    }


def _sla_trace(subject: Subject, sla: float) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": subject.calendar.axis_range(subject.comparison.begin_s, subject.comparison.until_s),
        "y": [sla, sla],
        "line": line(SLA_KEY) | {"width": 1.2},
        "hoverinfo": "skip",
        "yaxis": "y2",
    }
