"""How many nodes can sleep until when: counted second by second."""

import numpy as np
from hypothesis import assume, given
from random_snapshots import NOW_S, snapshot_of, snapshots

from offpeak.model.node_states import ACTIVE, FAILED
from power.capacity.online_simulation import find_ols_units
from power.whatif.simulation import SleepTime, find_sleep_times


def needed_nodes(snapshot, plan) -> list[int]:
    """Return the nodes that jobs hold in each second from now to the last end."""
    running = len(snapshot.running.size)
    from_s = np.concatenate([np.full(running, NOW_S), plan.start_s[running:]])
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    seconds = range(NOW_S, plan.until_s)
    units = [int(size[(from_s <= second) & (second < plan.end_s)].sum()) for second in seconds]
    return [-(-count // snapshot.units_per_node) for count in units]


@given(snapshots())
def test_nodes_sleep_until_the_second_in_which_one_of_them_is_needed(snapshot):
    assume(snapshot.least_units <= snapshot.usable_units)
    plan = find_ols_units(snapshot, 3).plan
    nodes = snapshot.usable_units // snapshot.units_per_node
    needed = needed_nodes(snapshot, plan)
    for sleep in (steps := find_sleep_times(snapshot, plan)):
        within = needed if sleep.until_s is None else needed[: sleep.until_s - NOW_S]
        assert max(within, default=0) <= nodes - sleep.nodes
        assert sleep.until_s is None or needed[sleep.until_s - NOW_S] > nodes - sleep.nodes
    spare = nodes - max(needed, default=0)
    assert ([step.nodes for step in steps if step.until_s is None] or [0]) == [spare]
    assert [step.nodes for step in steps] == sorted({step.nodes for step in steps}, reverse=True)


def test_a_plan_in_steps():
    snapshot = snapshot_of(
        running=[(4, NOW_S - 5, NOW_S, NOW_S + 60)], queued=[(6, NOW_S, 50)], node_state=[ACTIVE] * 10 + [FAILED],
        units_per_node=2,
    )  # fmt: skip
    all_at_once = find_ols_units(snapshot, 1.5)
    assert find_sleep_times(snapshot, all_at_once.plan) == (SleepTime(5, None),)
    in_turn = find_ols_units(snapshot, 200)
    assert in_turn.units == 6
    assert find_sleep_times(snapshot, in_turn.plan) == (SleepTime(8, NOW_S + 60), SleepTime(7, None))
