"""Random small machines whose nodes sleep: classes, node logs that keep to their transitions, jobs on active nodes."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from offpeak.model.step_integrals import StepIntegral, Usage, integrate_series
from offpeak.model.step_series import Series
from offpeak.sim_backend.nodes.node_log import NodeLog, PoweredUsage

IDLE_W = 100.0
LONGEST_S = 40
"""Random jobs and nodes do something within so many seconds."""


@st.composite
def node_classes(draw, *, usual=False) -> NodeClass:
    """Classes of up to two depths; in usual ones ways draw no less than idling, those of the deeper depth no less."""
    numbers = sorted(draw(st.sets(st.integers(0, len(DEPTHS) - 1), max_size=2)))
    power_w = sorted(draw(st.lists(st.floats(0, IDLE_W), min_size=len(numbers), max_size=len(numbers))), reverse=True)
    way = st.tuples(st.integers(0, 3), st.floats(IDLE_W if usual else 0.0, 2 * IDLE_W))
    rows = np.array(draw(st.lists(st.tuples(way, way), min_size=len(numbers), max_size=len(numbers)))).reshape(-1, 2, 2)
    rows = np.sort(rows, axis=0) if usual else rows
    ways = [[Transition(int(long_s), watts, 0.0) for long_s, watts in row] for row in rows.tolist()]
    depths = [DepthPower(number, watts, *pair) for number, watts, pair in zip(numbers, power_w, ways, strict=True)]
    return NodeClass("test", IDLE_W, ((0.0, IDLE_W), (1.0, 3 * IDLE_W)), tuple(depths))


@st.composite
def meters(draw) -> StepIntegral:
    """Meters of up to six pieces, which need not cover all of the time."""
    at_s = np.array(sorted(draw(st.sets(st.integers(-5, LONGEST_S), min_size=1, max_size=6))), np.int64)
    value = np.array(draw(st.lists(st.floats(-50, 400), min_size=len(at_s), max_size=len(at_s))))
    return integrate_series(Series(at_s, int(at_s[-1]) + 1, value, "EUR/MWh", "test"), 0)


@st.composite
def entries_of_a_node(draw, node_class: NodeClass, *, failing: bool) -> list[tuple[int, int]]:
    """What one node does: (second, state); a cycle leads into one depth or through several, each deeper."""
    by_number = {depth.depth: depth for depth in node_class.depths}
    cycles = st.tuples(st.integers(0, 9), st.sets(st.sampled_from(sorted(by_number)), min_size=1), st.integers(0, 6))
    entries, at_s = [], 0
    for active_s, depths, asleep_s in draw(st.lists(cycles, max_size=3)) if by_number else []:
        at_s += active_s
        for number in sorted(depths):
            entries.append((at_s, going_down(number)))
            at_s += by_number[number].enter.duration_s
            entries.append((at_s, asleep(number)))
            at_s += asleep_s
        entries.append((at_s, coming_up(max(depths))))
        at_s += by_number[max(depths)].leave.duration_s
        entries.append((at_s, ACTIVE))
    if failing and draw(st.booleans()):
        entries.append((at_s + draw(st.integers(0, 5)), FAILED))
    return entries


@dataclass(frozen=True)
class Placed:
    """A powered usage, and the node of each of its jobs."""

    powered: PoweredUsage
    node_of_job: list[int]


@st.composite
def placed(draw, *, failing=True, classes=None) -> Placed:
    """Up to three nodes of up to two units; each unit may run a job in each stretch in which its node is active."""
    node_class = draw(classes or node_classes())
    nodes, units = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    of_node = [draw(entries_of_a_node(node_class, failing=failing)) for _ in range(nodes)]
    begin_s = draw(st.integers(0, 5))
    until_s = draw(st.integers(begin_s + 1, LONGEST_S))
    jobs = []
    for node, entries in enumerate(of_node):
        for from_s, end_s in active_stretches(entries, begin_s, until_s):
            for _ in range(units):
                if draw(st.booleans()):
                    start_s, stop_s = sorted(draw(st.tuples(*[st.integers(from_s, end_s)] * 2)))
                    jobs.append((start_s, stop_s, draw(st.floats(0, 500)), node))
    start_s, stop_s, power_w, node_of_job = zip(*jobs, strict=True) if jobs else ((), (), (), ())
    ints = [np.array(column, np.int64) for column in (np.ones(len(jobs)), start_s, stop_s)]
    usage = Usage(ints[0], np.array(power_w), *ints[1:], nodes * units, IDLE_W / units, begin_s, until_s)
    return Placed(PoweredUsage(usage, log_of(of_node, units), node_class), list(node_of_job))


def active_stretches(entries: list[tuple[int, int]], begin_s: int, until_s: int) -> list[tuple[int, int]]:
    """Return from when to when a node with these entries is active within the period."""
    steps = [(0, ACTIVE), *entries, (until_s, FAILED)]
    pairs = [(from_s, end_s) for (from_s, state), (end_s, _) in pairwise(steps) if state == ACTIVE]
    inside = [(max(from_s, begin_s), min(end_s, until_s)) for from_s, end_s in pairs]
    return [(from_s, end_s) for from_s, end_s in inside if from_s <= end_s]


def log_of(of_node: list[list[tuple[int, int]]], units_per_node: int) -> NodeLog:
    """Return the log of each node's entries."""
    rows = [(at_s, node, state) for node, entries in enumerate(of_node) for at_s, state in entries]
    rows.sort(key=lambda row: row[0])
    at_s, node, state = zip(*rows, strict=True) if rows else ((), (), ())
    columns = np.array(at_s, np.int64), np.array(node, np.int32), np.array(state, np.int8)
    return NodeLog(len(of_node), units_per_node, *columns)


def state_at(log: NodeLog, node: int, second: int) -> int:
    """Return the state of a node in that second."""
    before = (log.node == node) & (log.at_s <= second)
    held = log.state[before]
    return int(held[-1]) if len(held) else ACTIVE
