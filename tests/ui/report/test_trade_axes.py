"""The axes of the trade: ticks that are few, round and inside."""

from hypothesis import given
from hypothesis import strategies as st

from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.trade_figure import MOST_TICKS, delay_loss, few_ticks, slowdown_loss


@given(st.floats(0.8, 1e6), st.floats(1.5625, 1e5))
def test_ticks_are_few_and_inside_and_there_is_one(low: float, factor: float) -> None:
    ticks = few_ticks(low, low * factor)
    assert 1 <= len(ticks) <= MOST_TICKS
    assert all(low <= tick <= low * factor for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_every_policy_lies_between_the_ends(sleeping: ReportSubject) -> None:
    for loss in (slowdown_loss(sleeping), delay_loss(sleeping)):
        assert len(loss.value) == 4
        assert loss.left < loss.value.min() <= loss.value.max() < loss.right
