"""Power cycles of each node: lines against the figures of the runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from offpeak.ui.report.figure import Figure
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.wait_figures import cycles_a_day, cycles_figure

Drawn = Callable[[Figure], list[dict[str, Any]]]


def test_cycles_are_sorted_and_have_the_mean_of_the_run(drawn: Drawn, sleeping: ReportSubject) -> None:
    for policy in sleeping.policies:
        cycles = cycles_a_day(policy)
        assert np.all(np.diff(cycles) <= 0)
        assert cycles.mean() == pytest.approx(policy.sleep.figures.power_cycles_per_node_day)
    traces = drawn(cycles_figure(sleeping))
    assert [len(trace["x"]) for trace in traces] == [33] * 4
