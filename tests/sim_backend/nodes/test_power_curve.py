"""The machine's power over time: against a count at each second, and its integrals against the accounting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import Placed, placed

from offpeak.model.step_integrals import Usage, energy_and_charge, integrate_constant
from offpeak.model.step_series import integral_between
from offpeak.sim_backend.nodes.node_log import NodeLog, node_energy_and_charge
from offpeak.sim_backend.nodes.power_curve import (
    PowerCurve,
    power_curve,
    powered_curve,
    standing_draw,
    within,
)

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


def curve_of(case: Placed) -> PowerCurve:
    log = case.powered.node_log
    counts = log.counts(case.powered.usage.begin_s)
    draw = standing_draw(counts, case.powered.node_class, units_per_node=log.units_per_node)
    return powered_curve(case.powered.usage, draw)


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
    energy = energy_and_charge(integrate_constant(1.0), usage)[0]
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


@given(placed())
def test_nodes_without_jobs_draw_what_their_states_do(case: Placed) -> None:
    usage, curve = case.powered.usage, curve_of(case)
    assert curve.edges_s[[0, -1]].tolist() == [usage.begin_s, usage.until_s]
    assert np.all(np.diff(curve.edges_s) > 0)
    used = node_energy_and_charge(integrate_constant(1.0), case.powered)[0]
    ends_s = np.array([usage.begin_s, usage.until_s])
    assert integral_between(curve.edges_s, curve.running_w, ends_s).sum() == pytest.approx(used.jobs, abs=1e-6)
    assert integral_between(curve.edges_s, curve.idle_w, ends_s).sum() == pytest.approx(used.besides_jobs, abs=1e-6)


@given(placed())
def test_nodes_that_never_sleep_have_todays_curve(case: Placed) -> None:
    usage, log = case.powered.usage, case.powered.node_log
    awake = NodeLog(log.nodes, log.units_per_node, log.at_s[:0], log.node[:0], log.state[:0])
    curve, today = curve_of(replace(case, powered=replace(case.powered, node_log=awake))), power_curve(usage)
    assert curve.at_s.tolist() == today.at_s.tolist()
    assert curve.total_w == pytest.approx(today.total_w)


def test_a_period_of_no_time_has_no_piece() -> None:
    at = np.array([5])
    curve = power_curve(Usage(np.array([3]), np.array([100.0]), at, at, NODES, IDLE_W, 5, 5))
    assert len(curve.at_s) == 0
    assert curve.edges_s.tolist() == [5]
    assert integral_between(curve.edges_s, curve.total_w, np.array([5, 5])).tolist() == [0.0]
