"""Weeks of a replay add up to the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.node_states import ACTIVE, OFF, asleep
from offpeak.model.step_integrals import Usage
from sim_backend.nodes.node_log import NodeLog
from studies.online_simulation.run import week_edges_s, weekly_active

NODES = 4
ENTRIES = st.lists(
    st.tuples(st.integers(0, 40 * DAY_S), st.integers(0, NODES - 1), st.sampled_from([ACTIVE, asleep(OFF)])),
    max_size=20,
).map(sorted)


def node_log(entries: list[tuple[int, int, int]]) -> NodeLog:
    at_s, node, state = (np.array([entry[place] for entry in entries], np.int64) for place in range(3))
    return NodeLog(NODES, 1, at_s, node.astype(np.int32), state.astype(np.int8))


def usage(runs: list[tuple[int, int]], until_s: int) -> Usage:
    start_s = np.array([start for start, _ in runs], np.int64)
    end_s = np.minimum(start_s + np.array([length for _, length in runs], np.int64), until_s)
    return Usage(np.ones(len(runs), np.int64), np.ones(len(runs)), start_s, end_s, NODES, 1.0, 0, until_s)


@given(ENTRIES, st.integers(1, 40 * DAY_S))
def test_active_nodes_add_up(entries: list[tuple[int, int, int]], until_s: int) -> None:
    active, _ = weekly_active(usage([(0, until_s)], until_s), node_log(entries))
    asleep_s = 0
    for node in range(NODES):
        since_s, state = 0, ACTIVE
        for at_s, _, following in [entry for entry in entries if entry[1] == node] + [(until_s, node, ACTIVE)]:
            asleep_s += (min(at_s, until_s) - since_s) * (state != ACTIVE)
            since_s, state = min(at_s, until_s), following
    lengths_s = np.diff(week_edges_s(0, until_s))
    assert float(np.dot(active, lengths_s)) == pytest.approx(NODES * until_s - asleep_s)


@given(st.lists(st.tuples(st.integers(0, 20 * DAY_S), st.integers(0, 15 * DAY_S)), min_size=1, max_size=NODES))
def test_use_adds_up(runs: list[tuple[int, int]]) -> None:
    until_s = max(start + length for start, length in runs) + 1
    used = usage(runs, until_s)
    active, share = weekly_active(used, node_log([]))
    busy_s = np.dot(share * active, np.diff(week_edges_s(0, until_s)))
    assert float(busy_s) == pytest.approx(float((used.end_s - used.start_s).sum()))
    assert share.max() <= 1 + 1e-9


@given(st.integers(0, 10**6), st.integers(1, 60 * DAY_S))
def test_weeks_cover_the_period(begin_s: int, length_s: int) -> None:
    edges_s = week_edges_s(begin_s, begin_s + length_s)
    assert (edges_s[0], edges_s[-1]) == (begin_s, begin_s + length_s)
    assert np.diff(edges_s).min() > 0
    assert np.diff(edges_s).max() <= WEEK_S
