"""What is drawn of a step function: all of it, or the extremes of stretches of time."""

import base64

import numpy as np
import pytest

from offpeak.model.arrays import Float64
from offpeak.sim_backend.comparison.figures import BusiestWindow
from offpeak.ui.report.figure import Json
from offpeak.ui.report.power_figure import MOST_STEPS, peak_trace, price_edges, step_trace, steps_of
from offpeak.ui.report.subject import ReportSubject


def unpacked(array: Json) -> Float64:
    return np.frombuffer(base64.b64decode(array["bdata"]), f"<{array['dtype']}").astype(float)


def test_few_steps_are_drawn_exactly(subject: ReportSubject) -> None:
    edges_s, value = np.array([0, 60, 3600, 4000]), np.array([1.0, 5.0, 2.0])
    steps = steps_of(edges_s, value)
    assert steps.stretches_s == ()
    trace = step_trace(subject.calendar, steps, value)
    assert unpacked(trace["x"]).tolist() == subject.calendar.axis_ms(edges_s).tolist()
    assert unpacked(trace["y"]).tolist() == [1.0, 5.0, 2.0, 2.0]


@pytest.mark.parametrize("detail", [None, BusiestWindow(20 * 86_400, 23 * 86_400)])
def test_many_steps_keep_every_extreme_in_its_stretch(detail: BusiestWindow | None) -> None:
    rng = np.random.default_rng(1)
    edges_s = np.arange(60_001) * 60
    value = rng.normal(size=60_000)
    steps = steps_of(edges_s, value, detail)
    drawn = value[steps.piece]
    assert len(drawn) < 2 * MOST_STEPS
    assert len(steps.at_s) == len(drawn) + 1
    assert np.all(np.diff(steps.at_s) > 0)
    assert (drawn.min(), drawn.max()) == (value.min(), value.max())
    # A piece is drawn within the stretch in which it lies.
    assert np.abs(edges_s[steps.piece] - steps.at_s[:-1]).max() <= steps.stretches_s[0]
    inside = (steps.at_s[:-1] >= 20 * 86_400) & (steps.at_s[:-1] < 23 * 86_400)
    assert np.abs(edges_s[steps.piece] - steps.at_s[:-1])[inside].max() <= steps.stretches_s[-1]
    assert len(steps.stretches_s) == (1 if detail is None else 2)


def test_prices_of_a_window_begin_and_end_with_it(subject: ReportSubject) -> None:
    aligned = subject.comparison.case.prices.aligned
    edges_s, value = price_edges(aligned, BusiestWindow(10_000, 100_000))
    assert (edges_s[0], edges_s[-1], len(value)) == (10_000, 100_000, len(edges_s) - 1)
    assert set(value.tolist()) == {30.0, 90.0}
    for at_s, price in zip(edges_s, value, strict=False):
        assert (price == 90.0) == (9 <= int(subject.calendar.minute_text(int(at_s))[11:13]) < 21)


def test_on_peak_is_shaded_where_it_is(subject: ReportSubject) -> None:
    trace = peak_trace(subject.comparison.case, subject.calendar, BusiestWindow(0, 86_400))
    hours = ((unpacked(trace["x"]) - subject.calendar.axis_ms(np.array([0]))[0]) / 3_600_000).tolist()
    # Second 0 is 1:00 in Berlin.
    assert hours == [0, 8, 20, 24]
    assert unpacked(trace["y"]).tolist() == [0, 1, 0, 0]
