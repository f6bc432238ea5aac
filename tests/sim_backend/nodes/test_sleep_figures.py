"""What sleeping came to: a case by hand, and figures that hang together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import Placed, placed, state_at

from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.model.step_integrals import Usage
from offpeak.sim_backend.nodes.node_log import (
    NodeLog,
    PoweredUsage,
    SleepFigures,
    power_cycles,
    sleep_figures,
    weekly_mean,
)

SERVER = bundled_node_class("server")


def figures_of(case: Placed) -> SleepFigures:
    usage = case.powered.usage
    return sleep_figures(
        (case.powered,), case.powered.usage, usage.start_s - 7, np.full(len(usage.size), 7), slowdown_bound=2.0
    )


@given(placed().filter(lambda case: case.node_of_job))
def test_states_and_nodes_hang_together(case: Placed) -> None:
    usage, log = case.powered.usage, case.powered.node_log
    figures = figures_of(case)
    seconds = range(usage.begin_s, usage.until_s)
    states = np.array([state_at(log, node, second) for node in range(log.nodes) for second in seconds])
    assert figures.inactive_share == pytest.approx((states != ACTIVE).mean())
    # Only active nodes run jobs.
    assert 0 <= figures.utilization_of_active <= 1
    assert figures.idle_saved_pct <= 100


@given(placed(), st.integers(0, 20), st.integers(0, 20))
def test_cycles_are_entries_into_standby_and_off(case: Placed, begin_s: int, length_s: int) -> None:
    log = case.powered.node_log
    depths = {asleep(STANDBY), asleep(OFF)}
    rows = zip(log.at_s.tolist(), log.node.tolist(), log.state.tolist(), strict=True)
    fell = [node for at_s, node, state in rows if state in depths and begin_s <= at_s < begin_s + length_s]
    assert power_cycles(log, begin_s, begin_s + length_s).tolist() == [fell.count(node) for node in range(log.nodes)]


@given(st.lists(st.tuples(st.floats(1, 100), st.integers(0, 5)), min_size=1))
def test_weekly_means_are_those_of_the_jobs(jobs: list[tuple[float, int]]) -> None:
    value, week = (np.array(column) for column in zip(*jobs, strict=True))
    means = weekly_mean(value, week, 5)
    for number in range(5):
        inside = value[np.minimum(week, 4) == number]
        expected = inside.mean() if len(inside) else np.nan
        assert means[number] == pytest.approx(expected, nan_ok=True)


def test_a_known_fortnight() -> None:
    """Of two servers one is off for the second week, but for a standby of a day that a job's start ends."""
    off, standby = OFF, STANDBY
    day = [WEEK_S, WEEK_S + 60, WEEK_S + 4 * DAY_S, WEEK_S + 4 * DAY_S + 300]
    night = [WEEK_S + 6 * DAY_S, WEEK_S + 6 * DAY_S + 15]
    at_s = np.array(day + night)
    state = np.array(
        [going_down(off), asleep(off), coming_up(off), ACTIVE, going_down(standby), asleep(standby)], np.int8
    )
    log = NodeLog(2, 1, at_s, np.ones(6, np.int32), state)
    start_s = np.array([0, day[3]])
    usage = Usage(
        np.array([1, 2]), np.full(2, 300.0), start_s, start_s + np.array([100, 1000]), 2, 200.0, 0, 2 * WEEK_S
    )
    powered = PoweredUsage(usage, log, SERVER)
    figures = sleep_figures((powered,), usage, start_s - [0, 5300], np.array([0, 300]), slowdown_bound=6.0)
    away_s = 4 * DAY_S + 300 + DAY_S
    assert figures.inactive_share == pytest.approx(away_s / (4 * WEEK_S))
    assert figures.utilization_of_active == pytest.approx(2100 / (4 * WEEK_S - away_s))
    assert (figures.power_cycles, figures.most_power_cycles_of_a_node) == (2, 2)
    assert figures.power_cycles_per_node_day == pytest.approx(2 / 2 / 14)
    assert (figures.mean_boot_delay_s, figures.delayed_share, figures.largest_boot_delay_s) == (150.0, 0.5, 300)
    assert figures.weekly_slowdown.tolist() == [1.0, 1 + 5.3]
    assert figures.weekly_violations.tolist() == [0.0, 1.0]
    assert figures.above_bound_share == 0.5
    assert figures.always_on_idle_j == 200.0 * (4 * WEEK_S - 2100)
    assert 0 < figures.idle_saved_pct < 100 * away_s / (4 * WEEK_S - 2100)
