"""The machine's power over time: against a count at each second, and its integrals against the accounting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.accounting import Usage, constant_meter, energy_and_charge
from sim_backend.figures.power_curve import extreme_pieces, integral_between, power_curve, within

NODES, IDLE_W = 10, 50.0
RUN = st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, NODES), st.sampled_from([100.0, 0.1, 333.3]))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Runs anywhere in a minute or so; they may need more units than there are, which is not the curve's concern."""
    rows = draw(st.lists(RUN, min_size=1, max_size=12))
    start_s, length_s, size, power_w = (np.array(column) for column in zip(*rows, strict=True))
    end_s = start_s + length_s
    begin_s, until_s = int(start_s.min()) - draw(st.integers(0, 3)), int(end_s.max()) + draw(st.integers(0, 3))
    return Usage(size, power_w, start_s, end_s, NODES, IDLE_W, begin_s, until_s)


@given(usages())
def test_each_second_is_the_sum_of_what_runs_in_it(usage: Usage) -> None:
    curve = power_curve(usage)
    assert np.all(np.diff(curve.edges_s) > 0)
    for second in range(usage.begin_s, usage.until_s):
        running = (usage.start_s <= second) & (second < usage.end_s)
        piece = np.searchsorted(curve.at_s, second, side="right") - 1
        busy = int(usage.size[running].sum())
        assert curve.busy[piece] == busy
        assert curve.running_w[piece] == pytest.approx(float((usage.size * usage.node_power_w)[running].sum()))
        assert curve.total_w[piece] == pytest.approx(curve.running_w[piece] + IDLE_W * (NODES - busy))


@given(usages())
def test_its_integral_is_the_energy(usage: Usage) -> None:
    curve = power_curve(usage)
    energy = energy_and_charge(constant_meter(1.0), usage)[0]
    ends_s = np.array([usage.begin_s, usage.until_s])
    assert integral_between(curve.edges_s, curve.running_w, ends_s).sum() == pytest.approx(energy.jobs)
    assert integral_between(curve.edges_s, curve.total_w, ends_s).sum() == pytest.approx(energy.total)


@given(usages(), st.data())
def test_a_part_of_it_is_the_same_curve(usage: Usage, data: st.DataObject) -> None:
    curve = power_curve(usage)
    seconds = st.integers(usage.begin_s, usage.until_s)
    from_s, until_s = sorted((data.draw(seconds), data.draw(seconds)))
    part = within(curve, from_s, until_s)
    for second in range(from_s, until_s):
        here, there = (np.searchsorted(each.at_s, second, side="right") - 1 for each in (part, curve))
        assert part.total_w[here] == curve.total_w[there]
    assert (part.edges_s[0], part.until_s) == (from_s, until_s)


STEPS = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1.0, 2.0, 5.0, -3.0])), min_size=1, max_size=30)


@given(STEPS, st.integers(1, 25))
def test_extremes_of_a_bin_are_the_lowest_and_highest_of_its_seconds_in_their_order(
    steps: list[tuple[int, float]], width_s: int
) -> None:
    edges_s = np.append(0, np.cumsum([length for length, _ in steps]))
    value = np.array([height for _, height in steps])
    bins_s = np.append(np.arange(0, edges_s[-1], width_s), edges_s[-1])
    by_second = np.repeat(value, np.diff(edges_s))
    pieces = extreme_pieces(edges_s, value, bins_s)
    assert pieces.shape == (len(bins_s) - 1, 2)
    for (first, second), from_s, until_s in zip(pieces, bins_s[:-1], bins_s[1:], strict=True):
        inside = by_second[from_s:until_s]
        assert first <= second
        assert {value[first], value[second]} == {inside.min(), inside.max()}
        assert edges_s[first + 1] > from_s
        assert edges_s[second] < until_s


def test_an_unknown_value_counts_as_the_highest() -> None:
    value = np.array([1.0, np.nan, 3.0, 2.0])
    pieces = extreme_pieces(np.arange(5), value, np.array([0, 2, 4]))
    assert pieces.tolist() == [[0, 1], [2, 3]]


def test_bins_of_several_lengths_inside_the_function() -> None:
    pieces = extreme_pieces(np.arange(0, 70, 10), np.array([0.0, 1, 2, 3, 4, 5]), np.array([15, 20, 45]))
    assert pieces.tolist() == [[1, 1], [2, 4]]


def test_a_period_of_no_time_has_no_piece() -> None:
    at = np.array([5])
    curve = power_curve(Usage(np.array([3]), np.array([100.0]), at, at, NODES, IDLE_W, 5, 5))
    assert len(curve.at_s) == 0
    assert curve.edges_s.tolist() == [5]
    assert integral_between(curve.edges_s, curve.total_w, np.array([5, 5])).tolist() == [0.0]
