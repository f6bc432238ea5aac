"""How long jobs wait: for each time, the share of jobs that have started by then."""

import numpy as np

from offpeak.model.arrays import Int64
from sim_backend.engine.state import NOT_YET
from sim_backend.figures import cumulative_share
from ui.report.figure import Figure, Json, axis, line, name_text, packed
from ui.report.subject import Policy, Subject

SHORTEST_S = 1
MOST_POINTS = 500
TICKS = {
    1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h", 86_400: "1 d", 604_800: "1 week",
    2_592_000: "30 d", 31_536_000: "1 year",
}  # fmt: skip


def wait_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it."""
    longest_s = max(int(_wait_s(subject, policy).max()) for policy in subject.policies)
    shown_until_s = max(2 * longest_s, 600)
    return Figure(
        name="wait",
        heading="How long jobs wait",
        summary="Share of jobs that wait no longer than a time, a line for each policy.",
        caption=f"The share of jobs that have started after waiting this long. Jobs that start within a second of "
        f"their submission lie at the left edge. At most {MOST_POINTS} points a line, each exactly on it.",
        keys=tuple(policy.key for policy in subject.policies),
        data=[_trace(subject, policy, shown_until_s) for policy in subject.policies],
        layout={
            "height": 380,
            "xaxis": axis(
                "wait",
                type="log",
                range=[0, float(np.log10(shown_until_s))],
                tickvals=list(TICKS),
                ticktext=list(TICKS.values()),
                tickangle=0,
                showline=True,
                ticks="outside",
                hoverformat=",.0f",
                unifiedhovertitle={"text": "wait up to %{x:,.0f} s"},
            ),
            "yaxis": axis("jobs [%]", range=[0, 102]),
        },
    )


def _wait_s(subject: Subject, policy: Policy) -> Int64:
    start_s = policy.run.schedule.start_s
    wait_s: Int64 = (start_s - subject.comparison.case.jobs.submit_s)[start_s != NOT_YET]
    return wait_s


def _trace(subject: Subject, policy: Policy, shown_until_s: int) -> Json:
    x_s, share = cumulative_share(_wait_s(subject, policy), lowest=SHORTEST_S, most_points=MOST_POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name_text(policy.name),
        "x": packed(np.append(x_s, shown_until_s), "f8"),
        "y": packed(100 * np.append(share, 1.0)),
        "line": line(policy.key) | {"shape": "hv"},
        "hovertemplate": "%{y:.1f} % of the jobs",
    }
