"""Nodes over time: areas against the node-seconds of the runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from offpeak.sim_backend.comparison.figures import BusiestWindow
from offpeak.ui.report import nodes_figure as module
from offpeak.ui.report.figure import Figure
from offpeak.ui.report.nodes_figure import nodes_figure
from offpeak.ui.report.subject import ReportSubject

Make = Callable[..., ReportSubject]

Drawn = Callable[[Figure], list[dict[str, Any]]]


def node_seconds(traces: list[dict[str, Any]], choice: int) -> dict[str, float]:
    """Return the integral of each area of a policy."""
    areas = [trace for trace in traces if trace["meta"] == {"choice": choice} and "stackgroup" in trace]
    return {trace["name"]: float((trace["y"][:-1] * np.diff(trace["x"] / 1000)).sum()) for trace in areas}


@pytest.mark.parametrize("most_steps", [100_000, 40])
def test_areas_are_the_node_seconds_in_each_state(
    drawn: Drawn, sleeping: ReportSubject, monkeypatch: pytest.MonkeyPatch, most_steps: int
) -> None:
    monkeypatch.setattr(module, "most_steps", lambda _: most_steps)
    comparison = sleeping.comparison
    figure = nodes_figure(sleeping, BusiestWindow(comparison.begin_s, comparison.until_s))
    traces = drawn(figure)
    assert ("means of each" in figure.caption) == (most_steps == 40)
    for policy in sleeping.policies:
        period_s = policy.outcome.until_s - comparison.begin_s
        seconds = node_seconds(traces, policy.number)
        assert sum(seconds.values()) == pytest.approx(32 * period_s, rel=1e-4)
        schedule = policy.run.schedule
        busy_s = (comparison.case.jobs.size * (schedule.end_s - schedule.start_s)).sum()
        assert seconds["running jobs"] == pytest.approx(busy_s, rel=1e-4)
        share = policy.sleep.figures.inactive_share
        inactive_s = sum(seconds.get(name, 0.0) for name in ("asleep: off", "falling asleep or waking"))
        assert inactive_s == pytest.approx(share * 32 * period_s, rel=1e-4)


def test_without_depths_there_is_nothing_but_running_and_idle(make: Make) -> None:
    subject = make(60, "easy", capacities=("always-on",))
    figure = nodes_figure(subject, BusiestWindow(subject.comparison.begin_s, subject.comparison.until_s))
    assert [key.name for key in figure.keys] == ["running jobs", "idle"]
    assert figure.caption.startswith("The areas are exact.")
