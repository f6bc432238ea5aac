"""How long nothing but sleeping nodes kept jobs from running: for each time, the share of jobs held up longer."""

import numpy as np

from sim_backend.figures import cumulative_share
from sim_backend.outcome import sleep_delay_s
from ui.report.figure import Figure, Json, axis, line, name_text, packed
from ui.report.subject import Policy, Subject
from ui.report.wait_figure import MOST_POINTS, SHORTEST_S, TICKS


def delays_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it."""
    longest_s = max(int(sleep_delay_s(policy.run.schedule).max()) for policy in subject.policies)
    shown_until_s = max(2 * longest_s, 600)
    return Figure(
        name="delays",
        heading="How long jobs wait for nodes to wake",
        summary="Share of jobs that sleeping nodes hold up longer than a time, a line for each policy.",
        caption="The share of jobs that nothing but sleeping, falling or waking nodes kept from running for longer "
        f"than this. It is part of their wait. At most {MOST_POINTS} points a line, each exactly on it.",
        keys=tuple(policy.key for policy in subject.policies),
        data=[_trace(policy, shown_until_s) for policy in subject.policies],
        layout={
            "height": 340,
            "xaxis": axis(
                "delay by sleep",
                type="log",
                range=[0, float(np.log10(shown_until_s))],
                tickvals=list(TICKS),
                ticktext=list(TICKS.values()),
                tickangle=0,
                showline=True,
                ticks="outside",
                unifiedhovertitle={"text": "held up longer than %{x:,.0f} s"},
            ),
            "yaxis": axis("jobs [%]", rangemode="tozero"),
        },
    )


def _trace(policy: Policy, shown_until_s: int) -> Json:
    delay_s = sleep_delay_s(policy.run.schedule)
    x_s, share = cumulative_share(delay_s, lowest=SHORTEST_S, most_points=MOST_POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name_text(policy.name),
        "x": packed(np.append(x_s, shown_until_s), "f8"),
        "y": packed(100 * (1 - np.append(share, 1.0))),
        "line": line(policy.key) | {"shape": "hv"},
        "hovertemplate": "%{y:.1f} % of the jobs",
    }
