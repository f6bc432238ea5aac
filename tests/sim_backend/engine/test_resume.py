"""A resumed state is one that the engine could have come to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN, policy_of
from random_power import BEFORE_ALL_S, ON_DEMAND, class_of, node_numbers, schedule_of

from offpeak.model.node_states import OFF
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import NEVER as NEVER_ASLEEP
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.case import unit_workload
from offpeak.sim_backend.engine.pools import PoolNodes, sleeping_pools
from offpeak.sim_backend.engine.resume import resumed_state
from offpeak.sim_backend.engine.rules import FINISHED, NEVER, NO_PEAKS
from offpeak.sim_backend.engine.state import SLOTS
from offpeak.sim_backend.replay.replay import unit_rules_of

pytestmark = pytest.mark.quick

NOW_S = 50
ALWAYS_ON = (BEFORE_ALL_S, 0, 0, [NEVER_ASLEEP] * 3)
holders = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=20)


def resumed(rows, machine_size):
    """Return what `advance` takes: holders of rows (size, run time left)."""
    size, left_s = np.array(rows, dtype=np.int64).T.copy()
    tables, workload = unit_workload((0 * left_s, left_s, left_s), size, machine_size)
    rules, capacity = unit_rules_of(policy_of(PLAIN)), CapacityPolicy("on", ON_DEMAND, schedule_of(ALWAYS_ON))
    pool = PoolNodes(machine_size, is_counted=True, group=0)
    sleeping = sleeping_pools([pool], [capacity], [class_of((OFF, 1, 1))], jobs=len(rows), cells=1, begin_s=NOW_S)
    state = resumed_state(tables, workload, rules, holders=len(rows), now_s=NOW_S, sleeping=sleeping)
    return tables, workload, rules, state


@given(holders, st.integers(0, 70))
def test_holders_hold_as_many_nodes_as_they_ask_for_and_share_none(rows, more):
    machine_size = sum(size for size, _ in rows) + more
    *_, state = resumed(rows, machine_size)
    slots, now, sleeping = state.slots, state.scalars[0], state.sleeping
    held = [node_numbers(sleeping.nodes, sleeping.units[slot]) for slot in range(len(rows))]
    assert len(np.unique(np.concatenate(held))) == sum(size for size, _ in rows)
    assert (state.free[SLOTS, 0], now["running"], state.groups["listed"][0]) == (more, len(rows), len(rows))
    ends_s = slots.expected_end_s[state.expected[: len(rows)]].tolist()
    assert ends_s == sorted(ends_s) == sorted(NOW_S + left_s for _, left_s in rows)


@given(holders, st.integers(0, 70))
def test_all_is_free_when_the_holders_have_ended(rows, more):
    machine_size = sum(size for size, _ in rows) + more
    tables, workload, rules, state = resumed(rows, machine_size)
    state = state._replace(sleeping=None)
    assert advance(tables, workload, NO_PEAKS, rules, state, NEVER - 1) == FINISHED
    now, last_s = state.scalars[0], NOW_S + max(left_s for _, left_s in rows)
    assert (now["now_s"], state.free[SLOTS, 0], now["running"]) == (last_s, machine_size, 0)
