"""The node log of a powered replay: which node entered which state when, and how many nodes were in each state."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, STATES

Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]


@dataclass(frozen=True)
class NodeLog:
    """Entry `i`: at `at_s[i]` [trace seconds] node `node[i]` enters `state[i]`, a number of `model.node_states`.

    In time order; of several entries of a node within a second the last one holds. Before its first entry a node is
    active. OffpeakError if times go back, or a node or a state does not exist.
    """

    nodes: int
    units_per_node: int
    at_s: Int64
    node: Int32
    state: Int8

    def __post_init__(self) -> None:
        if not len(self.at_s) == len(self.node) == len(self.state):
            raise OffpeakError("node log: its columns differ in length", hint="each entry has a time, a node, a state")
        _check(self.at_s[1:] >= self.at_s[:-1], "goes back in time behind entry", "write entries as time goes on")
        _check(
            (self.node >= 0) & (self.node < self.nodes),
            "has an unknown node in entry",
            f"nodes are numbered from 0 to {self.nodes - 1}",
        )
        _check(
            (self.state >= 0) & (self.state < STATES),
            "has an unknown state in entry",
            "offpeak.model.node_states lists the states",
        )

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def units(self) -> int:
        """The allocation units of all nodes."""
        return self.nodes * self.units_per_node

    def until(self, until_s: int) -> "NodeLog":
        """Return the log without what happens from that second on."""
        kept = int(np.searchsorted(self.at_s, until_s))
        return replace(self, at_s=self.at_s[:kept], node=self.node[:kept], state=self.state[:kept])

    def counts(self, begin_s: int) -> "StateCounts":
        """Return how many nodes are in each state, from `begin_s` on."""
        at_s = np.append(begin_s, self.at_s[self.at_s > begin_s])
        at_s = at_s[np.append(True, at_s[1:] > at_s[:-1])]
        return StateCounts(at_s, _counts(at_s, self.at_s, self.node, self.state, self.nodes))


@dataclass(frozen=True)
class StateCounts:
    """From `at_s[i]` on, `nodes[i, state]` nodes are in each state: int64[p], rising, and int32[p, STATES]."""

    at_s: Int64
    nodes: Int32


def _check(good: NDArray[np.bool_], problem: str, hint: str) -> None:
    if not good.all():
        raise OffpeakError(f"node log: {problem} {int(np.argmin(good))}", hint=hint)


@kernel
def _counts(edges_s: Int64, at_s: Int64, node: Int32, state: Int8, nodes: int) -> Int32:
    """Return the counts between neighbours of `edges_s`, which holds all times of the log behind its first."""
    counts = np.empty((len(edges_s), STATES), dtype=np.int32)
    now = np.zeros(STATES, dtype=np.int32)
    now[ACTIVE] = nodes
    present = np.full(nodes, ACTIVE, dtype=np.int8)
    piece = 0
    for entry in range(len(at_s)):
        while at_s[entry] > edges_s[piece]:
            counts[piece] = now
            piece += 1
        now[present[node[entry]]] -= 1
        now[state[entry]] += 1
        present[node[entry]] = state[entry]
    counts[piece] = now
    return counts
