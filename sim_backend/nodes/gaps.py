"""The gaps between jobs, by level: what even a policy that knows the future has for sleeping.

Level 1 is busy while any node must be active for the running jobs, level 2 while two must be, and so on. A gap is a
time in which a level is not busy. Jobs that take the node that became free last leave just these gaps to the nodes.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from offpeak.model.step_integrals import Usage


@dataclass(frozen=True)
class Gaps:
    """`nodes[i]` levels are not busy from `from_s[i]` to `until_s[i]`, and are before and after, or the period ends."""

    from_s: Int64
    until_s: Int64
    nodes: Int64


def gaps_of(usage: Usage, units_per_node: int) -> Gaps:
    """Return the gaps over the period of `usage`; OffpeakError if its jobs need more nodes than there are."""
    at_s, nodes = _needed_nodes(usage, units_per_node)
    machine = usage.machine_size // units_per_node
    if nodes.max(initial=0) > machine:
        needed = f"the running jobs need {nodes.max()} of {machine} nodes at second {at_s[np.argmax(nodes)]}"
        raise OffpeakError(
            needed, hint=f"a machine is whole nodes of {units_per_node} units and holds all jobs that run"
        )
    return Gaps(*_gaps(at_s, nodes, machine, usage.begin_s, usage.until_s))


def _needed_nodes(usage: Usage, units_per_node: int) -> tuple[Int64, Int64]:
    """Return from when on the running jobs need how many nodes at least, however they are packed."""
    at_s, at = np.unique(np.concatenate([usage.start_s, usage.end_s]), return_inverse=True)
    change = np.bincount(at, weights=np.concatenate([usage.size, -usage.size]), minlength=len(at_s))
    units = np.cumsum(change).astype(np.int64)
    return at_s, -(-units // units_per_node)


@kernel
def _gaps(at_s: Int64, needed: Int64, machine: int, begin_s: int, until_s: int) -> tuple[Int64, Int64, Int64]:
    # The levels that are not busy, as groups on a stack: that which became free last is needed first.
    free_s, free = np.empty(len(at_s) + 1, dtype=np.int64), np.empty(len(at_s) + 1, dtype=np.int64)
    free_s[0], free[0] = begin_s, machine
    groups = 1
    gaps = np.empty((3, 2 * len(at_s) + 1), dtype=np.int64)
    found = 0
    before = 0
    for step in range(len(at_s) + 1):
        last = step == len(at_s)
        second = until_s if last else at_s[step]
        wanted = machine if last else needed[step]
        if wanted < before:
            free_s[groups], free[groups] = second, before - wanted
            groups += 1
        while before < wanted:
            taken = min(free[groups - 1], wanted - before)
            gaps[0, found], gaps[1, found], gaps[2, found] = free_s[groups - 1], second, taken
            found += 1 if second > free_s[groups - 1] else 0
            free[groups - 1] -= taken
            groups -= 1 if free[groups - 1] == 0 else 0
            before += taken
        before = wanted
    return gaps[0, :found].copy(), gaps[1, :found].copy(), gaps[2, :found].copy()
