"""How long jobs wait for nodes to wake: lines against the delays of the jobs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from offpeak.model.arrays import Float64
from offpeak.ui.report.figure import Figure
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.wait_figures import delays_figure

Drawn = Callable[[Figure], list[dict[str, Any]]]


def test_delays_begin_with_the_share_of_jobs_that_have_one(drawn: Drawn, sleeping: ReportSubject) -> None:
    for policy, trace in zip(sleeping.policies, drawn(delays_figure(sleeping)), strict=True):
        delay_s: Float64 = policy.run.schedule.sleep_delay_s
        assert trace["y"][0] == pytest.approx(100 * (delay_s > 1).mean(), abs=1e-4)
        assert np.all(np.diff(trace["y"]) <= 0)
        assert trace["y"][-1] == 0
