"""What sleeping costs the jobs week by week: lines against the figures of the runs."""

from collections.abc import Callable
from typing import Any

import pytest

from offpeak.settings.capacity import DEFAULT_SLA
from offpeak.ui.report.figure import Figure
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.wait_figures import weeks_figure

Drawn = Callable[[Figure], list[dict[str, Any]]]


def test_weeks_hold_the_figures_of_each_run(drawn: Drawn, sleeping: ReportSubject) -> None:
    traces = drawn(weeks_figure(sleeping))
    for policy, share, slowdown in zip(sleeping.policies, traces[:-1:2], traces[1:-1:2], strict=True):
        assert share["y"] == pytest.approx(100 * policy.sleep.figures.weekly_violations, nan_ok=True)
        assert slowdown["y"] == pytest.approx(policy.sleep.figures.weekly_slowdown, nan_ok=True)
        assert len(share["x"]) == len(share["y"])
    assert traces[-1]["y"] == [DEFAULT_SLA, DEFAULT_SLA]
