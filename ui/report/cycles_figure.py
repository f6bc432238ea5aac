"""How unevenly nodes wear: the power cycles of each node, the most cycled first."""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.local_time import DAY_S
from sim_backend.nodes.node_log import power_cycles
from ui.report.figure import Figure, Json, axis, line, name_text, packed
from ui.report.subject import Policy, Subject

MOST_NODES = 500


def cycles_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it."""
    nodes = subject.nodes.nodes
    drawn = "" if nodes <= MOST_NODES else f" {MOST_NODES} of {nodes:,} nodes are drawn, each exactly on its line."
    return Figure(
        name="cycles",
        heading="Power cycles of each node",
        summary="Power cycles a day of each node, the most cycled first, a line for each policy.",
        caption="How often a day each node goes to standby or off, on average over the period. Nodes are sorted for "
        f"each policy, so that a flat line is even wear.{drawn}",
        keys=tuple(policy.key for policy in subject.policies),
        data=[_trace(subject, policy) for policy in subject.policies],
        layout={
            "height": 340,
            "xaxis": axis(
                "nodes, the most cycled first",
                range=[0, nodes],
                showline=True,
                ticks="outside",
                unifiedhovertitle={"text": "number %{x:,.0f} of the sorted nodes"},
            ),
            "yaxis": axis("cycles a day", rangemode="tozero"),
        },
    )


def cycles_a_day(subject: Subject, policy: Policy) -> Float64:
    """Return the mean number of power cycles of each node, the most cycled first: float64[nodes]."""
    begin_s, until_s = subject.comparison.begin_s, subject.comparison.until_s
    cycles = power_cycles(policy.sleep.node_log, begin_s, until_s)
    sorted_cycles = np.sort(cycles)[::-1].astype(np.float64)
    return sorted_cycles * DAY_S / max(until_s - begin_s, 1)


def _trace(subject: Subject, policy: Policy) -> Json:
    cycles = cycles_a_day(subject, policy)
    shown = np.unique(np.linspace(0, len(cycles) - 1, min(len(cycles), MOST_NODES)).astype(np.int64))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name_text(policy.name),
        "x": packed(np.append(shown, len(cycles)), "i4"),
        "y": packed(np.append(cycles[shown], cycles[-1])),
        "line": line(policy.key) | {"shape": "hv"},
        "hovertemplate": "%{y:.2f} a day",
    }
