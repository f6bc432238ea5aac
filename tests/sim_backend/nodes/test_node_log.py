"""Node logs: counts against a look at each node in each second, and logs that are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import LONGEST_S, Placed, placed, state_at

from offpeak.errors import OffpeakError
from offpeak.model.node_states import ACTIVE, FAILED, STATES, asleep
from offpeak.sim_backend.nodes.node_log import NodeLog


def node_log(rows, *, nodes=2) -> NodeLog:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return NodeLog(nodes, 1, *(np.array(*pair) for pair in zip(columns, (np.int64, np.int32, np.int8), strict=True)))


@given(placed(), st.integers(-3, LONGEST_S + 3))
def test_counts_are_those_of_each_second(case: Placed, begin_s: int) -> None:
    log = case.powered.node_log
    counts = log.counts(begin_s)
    assert counts.at_s[0] == begin_s
    assert np.all(np.diff(counts.at_s) > 0)
    for second in range(begin_s, LONGEST_S + 5):
        piece = np.searchsorted(counts.at_s, second, side="right") - 1
        states = [state_at(log, node, second) for node in range(log.nodes)]
        assert counts.nodes[piece].tolist() == np.bincount(states, minlength=STATES).tolist()


def test_without_entries_all_nodes_are_active() -> None:
    counts = node_log([]).counts(7)
    assert counts.at_s.tolist() == [7]
    assert counts.nodes[0, ACTIVE] == 2


def test_of_one_second_the_last_entry_holds() -> None:
    counts = node_log([(5, 0, asleep(2)), (5, 0, FAILED), (5, 1, asleep(0))]).counts(0)
    assert counts.at_s.tolist() == [0, 5]
    assert (counts.nodes[1, FAILED], counts.nodes[1, asleep(0)], counts.nodes[1, asleep(2)]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([(5, 0, ACTIVE), (4, 0, ACTIVE)], "goes back in time behind entry 0"),
        ([(5, 0, ACTIVE), (5, 2, ACTIVE)], "unknown node in entry 1"),
        ([(5, -1, ACTIVE)], "unknown node in entry 0"),
        ([(5, 0, STATES)], "unknown state in entry 0"),
    ],
)
def test_a_log_that_cannot_be(rows, problem: str) -> None:
    with pytest.raises(OffpeakError, match=problem):
        node_log(rows)


def test_columns_of_different_lengths() -> None:
    with pytest.raises(OffpeakError, match="differ in length"):
        NodeLog(1, 1, np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(2, np.int8))
