"""What nodes draw besides jobs: against each node in each second, and jobs on top of it against the accounting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import Placed, meters, placed, state_at

from offpeak.model.node_states import ACTIVE
from offpeak.model.step_integrals import StepIntegral, charge_by_job, integrals
from offpeak.sim_backend.nodes.node_log import node_energy_and_charge
from offpeak.sim_backend.nodes.power_curve import StandingDraw, standing_charge, standing_draw


def draw_of(case: Placed) -> StandingDraw:
    log = case.powered.node_log
    counts = log.counts(case.powered.usage.begin_s)
    return standing_draw(counts, case.powered.node_class, units_per_node=log.units_per_node)


@given(placed())
def test_each_second_is_the_sum_of_the_nodes(case: Placed) -> None:
    usage, log, draw = case.powered.usage, case.powered.node_log, draw_of(case)
    state_w = case.powered.node_class.state_w()
    assert np.all(np.diff(draw.at_s) > 0)
    for second in range(usage.begin_s, usage.until_s):
        piece = np.searchsorted(draw.at_s, second, side="right") - 1
        states = [state_at(log, node, second) for node in range(log.nodes)]
        assert draw.active_units[piece] == log.units_per_node * states.count(ACTIVE)
        assert draw.inactive_w[piece] == pytest.approx(sum(state_w[state] for state in states if state != ACTIVE))


@given(placed(), meters(), st.data())
def test_with_jobs_in_the_place_of_idling_it_is_the_accounting(
    case: Placed, price: StepIntegral, data: st.DataObject
) -> None:
    usage = case.powered.usage
    seconds = st.integers(usage.begin_s, usage.until_s)
    edges_s = np.array([usage.begin_s, *sorted(data.draw(st.lists(seconds, max_size=4))), usage.until_s])
    standing = standing_charge(draw_of(case), usage.idle_w, edges_s, price)
    busy = (usage.size * integrals(price, usage.start_s, usage.end_s)).sum()
    total = standing.sum() - usage.idle_w * busy + charge_by_job(price, usage).sum()
    assert len(standing) == len(edges_s) - 1
    assert total == pytest.approx(node_energy_and_charge(price, case.powered)[1].total, abs=1e-4)


@given(placed(), meters())
def test_a_part_of_no_time_uses_nothing(case: Placed, price: StepIntegral) -> None:
    usage = case.powered.usage
    edges_s = np.array([usage.begin_s, usage.begin_s, usage.until_s, usage.until_s])
    standing = standing_charge(draw_of(case), usage.idle_w, edges_s, price)
    assert standing[[0, 2]].tolist() == [0.0, 0.0]
