"""The bound over all schedules: below the best plan of any of them, and exact where there is nothing to wait for."""

from dataclasses import replace

import numpy as np
import pytest
from absolute_bound import lowest_of_all
from hypothesis import given
from hypothesis import strategies as st
from plain_planner import cheapest
from random_node_logs import IDLE_W, meters, node_classes

from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_integrals import StepIntegral, Usage, charge, integral, integrate_constant

ENERGY = integrate_constant(1.0)
SERVER = bundled_node_class("server")
PERIOD_S = 8


@st.composite
def two_schedules(draw) -> tuple[Usage, Usage]:
    """The same jobs twice on two nodes, each one anywhere in the period but never more than two units at once."""
    period_s = draw(st.integers(1, PERIOD_S))
    used, rows = np.zeros((2, period_s), np.int64), []
    for runtime_s, size in draw(st.lists(st.tuples(st.integers(1, period_s), st.integers(1, 2)), max_size=4)):
        options = [
            [at for at in range(period_s - runtime_s + 1) if max(units[at : at + runtime_s]) + size <= 2]
            for units in used
        ]
        if all(options):
            starts = [draw(st.sampled_from(possible)) for possible in options]
            for units, at in zip(used, starts, strict=True):
                units[at : at + runtime_s] += size
            rows.append((size, runtime_s, *starts))
    size, runtime_s, *starts = np.array(rows, np.int64).reshape(-1, 4).T
    power_w = np.array(draw(st.lists(st.floats(0, 500), min_size=len(size), max_size=len(size))))
    first, second = (Usage(size, power_w, at, at + runtime_s, 2, IDLE_W, 0, period_s) for at in starts)
    return first, second


def lowest(meter: StepIntegral, usage: Usage, node_class: NodeClass) -> float:
    return lowest_of_all(meter, usage, node_class, units_per_node=1).total


@given(two_schedules(), node_classes(), meters())
def test_no_schedule_and_plan_uses_less(
    schedules: tuple[Usage, Usage], node_class: NodeClass, price: StepIntegral
) -> None:
    given_to_it, other = schedules
    seconds = np.arange(other.until_s)[:, None]
    needed = ((other.start_s <= seconds) & (seconds < other.end_s)) @ other.size
    for meter in (ENERGY, price):
        worth = np.array([integral(meter, second, second + 1) for second in seconds[:, 0].tolist()])
        nodes = cheapest(node_class, needed.tolist(), worth.tolist(), 2, cut_ways=True)
        best = nodes - IDLE_W * float(needed @ worth) + charge(meter, other).jobs
        assert lowest(meter, given_to_it, node_class) <= best + 1e-6


def test_energy_is_that_of_jobs_and_of_sleep_and_one_wake_up() -> None:
    """One of ten servers runs for an hour of a day: it has to fall asleep or to wake, the others need neither."""
    one, hour_s, day_s = np.array([1]), np.array([3600]), 86_400
    bound = lowest_of_all(
        ENERGY, Usage(one, np.array([300.0]), 0 * one, hour_s, 10, SERVER.idle_w, 0, day_s), SERVER, units_per_node=1
    )
    off = SERVER.depths[-1]
    down_j = off.enter.energy_j - off.power_w * off.enter.duration_s
    assert bound.jobs == pytest.approx(300 * 3600)
    assert bound.idle == pytest.approx(off.power_w * (10 * day_s - 3600) + down_j)


def test_the_hungriest_job_takes_the_cheapest_hours() -> None:
    """Two jobs of an hour on one node; the hours cost 3, 1 and 2."""
    price = StepIntegral(np.array([0, 3600, 7200]), np.array([3.0, 1.0, 2.0]), np.array([0.0, 10800.0, 14400.0]))
    sleepless = replace(SERVER, depths=())
    usage = Usage(
        np.ones(2, np.int64), np.array([500.0, 300.0]), np.array([0, 3600]), np.array([3600, 7200]), 1, 200.0, 0, 10800
    )
    bound = lowest_of_all(price, usage, sleepless, units_per_node=1)
    assert bound.jobs == pytest.approx(3600 * (500 * 1 + 300 * 2))
    assert bound.idle == pytest.approx(3600 * 200 * 3)


def test_while_prices_are_negative_nodes_draw_what_they_can() -> None:
    none = np.empty(0, np.int64)
    usage = Usage(none, none * 1.0, none, none, 4, SERVER.idle_w, 0, 100)
    bound = lowest_of_all(integrate_constant(-2.0), usage, SERVER, units_per_node=1)
    assert bound.total == pytest.approx(-2.0 * 4 * 100 * SERVER.state_w().max())
