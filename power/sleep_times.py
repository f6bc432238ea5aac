"""How many nodes can sleep until when, as a plan uses the machine."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.snapshot import Snapshot
from power.what_if import Plan


@dataclass(frozen=True)
class SleepTime:
    """`nodes` that no known job needs before `until_s`; None: no known job needs them at all.

    They have to be up by then, so they are woken earlier by the time that this takes.
    """

    nodes: int
    until_s: int | None


def sleep_times(snapshot: Snapshot, plan: Plan) -> tuple[SleepTime, ...]:
    """Return the most nodes that can sleep, and until when; ever fewer for ever longer.

    Counted in whole nodes of units without a job, as if jobs were packed onto as few nodes as hold them.
    """
    at_s, units = units_in_use(snapshot, plan)
    per_node = snapshot.units_per_node
    most_so_far = np.maximum.accumulate(-(-units // per_node))
    rises = np.flatnonzero(np.diff(most_so_far)) + 1
    nodes = (snapshot.usable_units // per_node - most_so_far[np.append(0, rises)]).tolist()
    steps = zip(nodes, [*at_s[rises].tolist(), None], strict=True)
    return tuple(SleepTime(count, until_s) for count, until_s in steps if count > 0)


def units_in_use(snapshot: Snapshot, plan: Plan) -> tuple[Int64, Int64]:
    """Return seconds, the first of them now, and the units that jobs hold from each of them on."""
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    held_from_s = np.maximum(plan.start_s, snapshot.now_s)
    held_from_s[: len(snapshot.running.size)] = snapshot.now_s
    moment_s = np.concatenate([[snapshot.now_s], held_from_s, plan.end_s])
    at_s, which = np.unique(moment_s, return_inverse=True)
    change = np.bincount(which, weights=np.concatenate([[0], size, -size]), minlength=len(at_s))
    return at_s, np.cumsum(change).astype(np.int64)
