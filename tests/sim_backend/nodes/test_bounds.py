"""The bound for a schedule: no plan does better, the best plan reaches it, and so does last in, first out."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from absolute_bound import lowest_of_all
from hypothesis import given
from hypothesis import strategies as st
from plain_planner import cheapest
from random_node_logs import IDLE_W, Placed, meters, node_classes, placed

from offpeak.errors import OffpeakError
from offpeak.model.node_class import NodeClass, break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import OFF
from offpeak.model.step_integrals import StepIntegral, Usage, charge, integrate_constant
from offpeak.sim_backend.nodes.bounds import captured_share, lowest_for_schedule
from offpeak.sim_backend.nodes.node_log import node_energy_and_charge

ENERGY = integrate_constant(1.0)
SERVER = bundled_node_class("server")
PERIOD_S = 9
"""So long are the cases that a plan is sought for."""


@dataclass(frozen=True)
class Small:
    """A usage of up to two nodes and ten seconds."""

    usage: Usage
    units_per_node: int

    @property
    def nodes(self) -> int:
        return self.usage.machine_size // self.units_per_node

    def units(self) -> np.ndarray:
        """Return the units in use in each second of the period."""
        second = np.arange(self.usage.begin_s, self.usage.until_s)[:, None]
        return ((self.usage.start_s <= second) & (second < self.usage.end_s)) @ self.usage.size


@st.composite
def smalls(draw, *, units_per_node=(1, 1, 2, 3), nodes=2) -> Small:
    units, begin_s = draw(st.sampled_from(units_per_node)), draw(st.integers(0, 3))
    until_s = begin_s + draw(st.integers(1, PERIOD_S))
    run = st.tuples(st.integers(begin_s, until_s), st.integers(begin_s, until_s), st.integers(1, nodes * units))
    rows = [(*sorted(row[:2]), row[2]) for row in draw(st.lists(run, max_size=6))]
    kept: list[tuple[int, ...]] = []
    for row in rows:
        if small([*kept, row], nodes * units, units, begin_s, until_s).units().max(initial=0) <= nodes * units:
            kept.append(row)
    return small(kept, nodes * units, units, begin_s, until_s)


def small(rows, machine_size: int, units_per_node: int, begin_s: int, until_s: int) -> Small:
    start_s, end_s, size = np.array(rows, np.int64).reshape(-1, 3).T
    power_w = 100.0 + 50 * np.arange(len(size))
    idle_w = IDLE_W / units_per_node
    return Small(Usage(size, power_w, start_s, end_s, machine_size, idle_w, begin_s, until_s), units_per_node)


def lowest(case: Small, node_class: NodeClass) -> float:
    return lowest_for_schedule(case.usage, node_class, units_per_node=case.units_per_node)


def planned(case: Small, node_class: NodeClass, *, cut_ways: bool) -> float:
    """What the best plan uses besides the jobs."""
    needed = -(-case.units() // case.units_per_node)
    nodes = cheapest(node_class, needed.tolist(), [1.0] * len(needed), case.nodes, cut_ways=cut_ways)
    return nodes - case.usage.idle_w * float(case.units().sum())


@given(smalls(), node_classes())
def test_no_plan_uses_less(case: Small, node_class: NodeClass) -> None:
    assert lowest(case, node_class) <= planned(case, node_class, cut_ways=True) + 1e-6


@given(smalls(), node_classes(usual=True))
def test_the_best_plan_reaches_the_energy(case: Small, node_class: NodeClass) -> None:
    best_j = planned(case, node_class, cut_ways=False)
    assert lowest(case, node_class) == pytest.approx(best_j, abs=1e-6)


@given(smalls(units_per_node=(1,), nodes=3), node_classes(usual=True))
def test_no_assignment_of_nodes_to_jobs_leaves_better_gaps(case: Small, node_class: NodeClass) -> None:
    bound = lowest(case, node_class)
    assert bound == pytest.approx(best_assignment_j(case, node_class), abs=1e-6)


def best_assignment_j(case: Small, node_class: NodeClass) -> float:
    """Give each unit of each job to any node that is free, in every way, and let each gap cost its least."""
    usage = case.usage
    rows = sorted(zip(usage.start_s.tolist(), usage.end_s.tolist(), usage.size.tolist(), strict=True))
    units = [(start_s, end_s) for start_s, end_s, size in rows for _ in range(size) if start_s < end_s]
    plans = {((),) * case.nodes}
    for run in units:
        plans = {
            tuple(sorted((*plan[:node], (*plan[node], run), *plan[node + 1 :])))
            for plan in plans
            for node in range(case.nodes)
            if not plan[node] or plan[node][-1][1] <= run[0]
        }
    return min(sum(node_j(node_class, runs, usage) for runs in plan) for plan in plans)


def node_j(node_class: NodeClass, runs, usage: Usage) -> float:
    edges = [usage.begin_s, *(second for run in runs for second in run), usage.until_s]
    pairs = list(pairwise(edges))[::2]
    return sum(
        gap_j(node_class, until_s - from_s, begins=gap == 0, ends=gap == len(pairs) - 1)
        for gap, (from_s, until_s) in enumerate(pairs)
    )


def gap_j(node_class: NodeClass, length_s: int, *, begins: bool, ends: bool) -> float:
    """What a node takes in a gap, which may begin or end with the period."""
    choices = [node_class.idle_w * length_s]
    for depth in node_class.depths:
        ways = [way for way, cut in ((depth.enter, begins), (depth.leave, ends)) if not cut]
        asleep_s = length_s - sum(way.duration_s for way in ways)
        if asleep_s >= 0:
            choices.append(depth.power_w * asleep_s + sum(way.energy_j for way in ways))
    return min(choices)


@given(placed(failing=False), meters())
def test_no_run_uses_less(case: Placed, price: StepIntegral) -> None:
    powered = case.powered
    units = powered.node_log.units_per_node
    energy, cost = node_energy_and_charge(price, powered)
    bound_j = lowest_for_schedule(powered.usage, powered.node_class, units_per_node=units)
    assert bound_j <= energy.besides_jobs + 1e-6
    for meter, used in ((ENERGY, energy), (price, cost)):
        anyhow = lowest_of_all(meter, powered.usage, powered.node_class, units_per_node=units)
        assert anyhow.total <= used.total + 1e-6


@given(smalls())
def test_without_sleep_the_bound_is_always_on(case: Small) -> None:
    sleepless = replace(SERVER, idle_w=IDLE_W, depths=())
    assert lowest(case, sleepless) == pytest.approx(charge(ENERGY, case.usage).idle, abs=1e-6)


def test_a_gap_is_slept_through_only_beyond_the_break_even() -> None:
    """A node runs an hour at both ends of the period: the gap between is all that sleep can save in."""
    limit_s = break_even_s(SERVER, OFF)
    only_off = replace(SERVER, depths=tuple(depth for depth in SERVER.depths if depth.depth == OFF))
    saved = []
    for gap_s in (int(limit_s), int(limit_s) + 3600):
        starts = np.array([0, 3600 + gap_s])
        usage = Usage(np.ones(2, np.int64), np.full(2, 300.0), starts, starts + 3600, 1, SERVER.idle_w, 0, gap_s + 7200)
        idle_j = lowest_for_schedule(usage, only_off, units_per_node=1)
        saved.append(SERVER.idle_w * gap_s - idle_j)
    off_w = only_off.depths[0].power_w
    assert saved[0] == pytest.approx(0, abs=SERVER.idle_w)
    assert saved[1] == pytest.approx((SERVER.idle_w - off_w) * (3600 + int(limit_s) - limit_s))


def test_jobs_that_need_more_than_the_machine() -> None:
    case = small([(0, 5, 3)], 2, 1, 0, 5)
    with pytest.raises(OffpeakError, match="need 3 of 2 nodes at second 0"):
        lowest(case, SERVER)


def test_the_captured_share() -> None:
    assert captured_share(100.0, always_on=100.0, lowest=60.0) == 0.0
    assert captured_share(70.0, always_on=100.0, lowest=60.0) == 0.75
    assert captured_share(100.0, always_on=100.0, lowest=100.0) == 0.0
