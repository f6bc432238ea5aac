"""How long jobs wait, and what sleeping nodes cost: delays of jobs, slowdowns by week, and power cycles of nodes.

Waits and delays show for each time the share of jobs; cycles show each node, the most cycled first.
"""

from typing import Any

import numpy as np

from offpeak.display import duration_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.sim_backend.comparison.figures import cumulative_share
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.nodes.node_log import power_cycles
from offpeak.ui.report.figure import Figure, Json, Key, axis, line, packed, scatter, time_axis
from offpeak.ui.report.subject import ReportPolicy, ReportSubject

SHORTEST_S = 1
MOST_POINTS = 500
TICKS_S = (1, 10, 60, 600, 3600, 6 * 3600, 2 * DAY_S, 14 * DAY_S, 100 * DAY_S, 1000 * DAY_S)


def wait_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    waits_s = [_wait_s(subject, policy) for policy in subject.policies]
    middles = []
    for policy, each in zip(subject.policies, waits_s, strict=True):
        half, most = (duration_text(float(wait_s)) for wait_s in np.quantile(each, (0.5, 0.9)))
        middles.append(f"{policy.name}: half of the jobs at most {half}, nine of ten {most}")
    return Figure(
        name="wait",
        heading="How long jobs wait",
        summary=f"Share of jobs that wait no longer than a time. {'; '.join(middles)}",
        caption=f"The share of jobs that have started after waiting this long. Jobs that start within a second of "
        f"their submission lie at the left edge. At most {MOST_POINTS} points a line, each exactly on it.",
        **_shares(subject, waits_s, "wait", "wait up to"),
    )


def delays_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    delays_s = [policy.run.schedule.sleep_delay_s for policy in subject.policies]
    return Figure(
        name="delays",
        heading="How long jobs wait for nodes to wake",
        summary="Share of jobs that sleeping nodes hold up longer than a time, a line for each policy.",
        caption="The share of jobs that only nodes asleep or in a transition kept from running for longer than this. "
        f"This time is part of their wait. At most {MOST_POINTS} points a line, each exactly on it.",
        **_shares(subject, delays_s, "delay by sleep", "held up longer than"),
    )


def _wait_s(subject: ReportSubject, policy: ReportPolicy) -> Int64:
    start_s = policy.run.schedule.start_s
    wait_s: Int64 = (start_s - subject.comparison.case.jobs.submit_s)[start_s != NOT_YET]
    return wait_s


def _shares(subject: ReportSubject, seconds: list[Int64], title: str, hover: str) -> dict[str, Any]:
    """Return keys, data and layout of a figure of the share of jobs up to a time, or "longer than" it."""
    shown_until_s = max(2 * max(int(each.max()) for each in seconds), 600)
    is_longer = hover.endswith("longer than")
    traces = []
    for policy, each in zip(subject.policies, seconds, strict=True):
        x_s, share = cumulative_share(each, lowest=SHORTEST_S, most_points=MOST_POINTS)
        x_s, share = np.append(x_s, shown_until_s), 100 * np.append(share, 1.0)
        look: Json = {
            "line": line(policy.key) | {"shape": "hv"},
            "customdata": [duration_text(float(at_s)) for at_s in x_s],
        }
        y, text = packed(100 - share if is_longer else share), "%{customdata}: %{y:.1f} % of the jobs"
        traces.append(scatter(packed(x_s, "f8"), y, name=policy.name, hover=text, **look))
    x_axis = axis(
        title,
        type="log",
        range=[0, float(np.log10(shown_until_s))],
        tickvals=list(TICKS_S),
        ticktext=[duration_text(tick) for tick in TICKS_S],
        tickangle=0,
        showline=True,
        ticks="outside",
        unifiedhovertitle={"text": hover},
    )
    y_axis = axis("jobs [%]", **({"rangemode": "tozero"} if is_longer else {"range": [0, 102]}))
    keys = tuple(policy.key for policy in subject.policies)
    return {"keys": keys, "data": traces, "layout": {"height": 390, "xaxis": x_axis, "yaxis": y_axis}}


SLA_KEY = Key("SLA", "var(--text)", "2 3")
MARKED_BELOW = 60
"""Few weeks are marked by points: a week between two without jobs is no line."""


def weeks_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    times = subject.calendar.axis_range(subject.comparison.begin_s, subject.comparison.until_s)
    traces = []
    for policy in subject.policies:
        usage, figures = policy.run.usage, policy.sleep.figures
        from_s = np.arange(usage.begin_s, usage.until_s, WEEK_S)
        # The last week ends with the period.
        middle = packed(subject.calendar.axis_ms((from_s + np.minimum(from_s + WEEK_S, usage.until_s)) / 2), "f8")
        traces += [
            _week_trace(policy, middle, 100 * figures.weekly_violations, "%{y:.1f} %"),
            _week_trace(policy, middle, figures.weekly_slowdown, "%{y:,.4~r}") | {"yaxis": "y2"},
        ]
    sla = subject.comparison.case.sla
    return Figure(
        name="weeks",
        heading="What sleeping costs the jobs, week by week",
        summary=f"Share of jobs with a slowdown above {sla:g}, and mean slowdown, a line for each policy.",
        caption=f"Of the jobs that end in each week: the share whose slowdown, 1 + wait / max(10 s, run), is above the "
        f"SLA of {sla:g}, and the mean slowdown. Weeks count from the log's begin; the last may be cut.",
        keys=(*(policy.key for policy in subject.policies), SLA_KEY),
        data=[*traces, scatter(times, [sla, sla], line=line(SLA_KEY) | {"width": 1.2}, yaxis="y2")],
        layout={
            "height": 400,
            "xaxis": time_axis(anchor="y2", range=times, unifiedhovertitle={"text": "week around %{x|%Y-%m-%d}"}),
            "yaxis": axis("above SLA [%]", domain=[0.55, 1], rangemode="tozero"),
            "yaxis2": axis("mean slowdown", domain=[0, 0.46], type="log", tickformat=",.4~r"),
        },
    )


def _week_trace(policy: ReportPolicy, middle: Json, value: Float64, hover: str) -> Json:
    mode = "lines+markers" if len(value) < MARKED_BELOW else "lines"
    look: Json = {"mode": mode, "line": line(policy.key) | {"width": 1.5}, "marker": {"size": 4}}
    return scatter(middle, packed(value), name=policy.name, hover=hover, **look)


MOST_NODES = 500


def cycles_figure(subject: ReportSubject) -> Figure:
    """Return the figure, all policies in it."""
    nodes = subject.nodes.nodes
    drawn = "" if nodes <= MOST_NODES else f" {MOST_NODES} of {nodes:,} nodes are drawn, each exactly on its line."
    return Figure(
        name="cycles",
        heading="Power cycles of each node",
        summary="Power cycles a day of each node, the most cycled first, a line for each policy.",
        caption="Mean number of transitions to standby or off per day, for each node. Nodes are sorted for each "
        f"policy, so a flat line means even wear.{drawn}",
        keys=tuple(policy.key for policy in subject.policies),
        data=[_cycle_trace(policy) for policy in subject.policies],
        layout={
            "height": 320,
            "xaxis": axis("nodes, the most cycled first", range=[0, nodes], showline=True, ticks="outside")
            | {"unifiedhovertitle": {"text": "number %{x:,.0f} of the sorted nodes"}},
            "yaxis": axis("cycles a day", rangemode="tozero"),
        },
    )


def cycles_a_day(policy: ReportPolicy) -> Float64:
    """Return the mean number of power cycles of each node, the most cycled first: float64[nodes]."""
    begin_s, until_s = policy.run.usage.begin_s, policy.run.usage.until_s
    cycles = power_cycles(policy.sleep.node_log, begin_s, until_s)
    sorted_cycles = np.sort(cycles)[::-1].astype(np.float64)
    return sorted_cycles * DAY_S / max(until_s - begin_s, 1)


def _cycle_trace(policy: ReportPolicy) -> Json:
    cycles = cycles_a_day(policy)
    shown = np.unique(np.linspace(0, len(cycles) - 1, min(len(cycles), MOST_NODES)).astype(np.int64))
    points = packed(np.append(shown, len(cycles)), "i4"), packed(np.append(cycles[shown], cycles[-1]))
    look: Json = {"line": line(policy.key) | {"shape": "hv"}}
    return scatter(*points, name=policy.name, hover="%{y:.2f} a day", **look)
