"""What each policy trades: points against the outcomes."""

from collections.abc import Callable
from typing import Any

import pytest

from offpeak.ui.report.figure import Figure
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.trade_figure import possible_saving_pct, short_names, trade_figure

Drawn = Callable[[Figure], list[dict[str, Any]]]


def test_each_policy_is_a_point_under_what_was_possible(drawn: Drawn, sleeping: ReportSubject) -> None:
    traces = drawn(trade_figure(sleeping))
    by_slowdown, by_delay = (trace for trace in traces if trace["mode"] == "markers")
    outcomes = sleeping.comparison.outcomes
    assert by_slowdown["x"] == pytest.approx([outcome.mean_bounded_slowdown_by_delay for outcome in outcomes])
    assert by_delay["x"] == pytest.approx([outcome.mean_sleep_delay_s for outcome in outcomes])
    for trace in (by_slowdown, by_delay):
        assert trace["y"] == pytest.approx([outcome.idle_saved_pct for outcome in outcomes], abs=1e-4)
    for policy in sleeping.policies:
        possible_pct = possible_saving_pct(policy)
        assert policy.outcome.idle_saved_pct <= possible_pct + 1e-9
        captured_pct = 100 * policy.outcome.idle_saved_pct / possible_pct
        assert captured_pct == pytest.approx(policy.outcome.captured_pct)


def test_a_discipline_is_named_only_where_there_are_several() -> None:
    assert short_names(["easy", "easy timeout:5min"]) == ["always-on", "timeout:5min"]
    assert short_names(["easy", "fcfs timeout:5min"]) == ["easy", "fcfs timeout:5min"]
