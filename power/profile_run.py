"""Runs the engine whose nodes sleep on from a snapshot, under a profile."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE
from offpeak.model.snapshot import Snapshot
from plugin.capacity.rules import CapacitySchedule
from power.power_terms import PowerTerms
from power.price_profile import Profile
from power.resumed_machine import LAST_S, Machine, copied
from sim_backend.engine.advance_powered import LOG_FULL, advance_powered
from sim_backend.engine.power import Power
from sim_backend.nodes.node_log import Int8, Int32, NodeLog
from sim_backend.replay import NO_PEAKS

Entries = tuple[Int64, Int32, Int8]
"""Times, nodes and states of a node log."""


def run(snapshot: Snapshot, profile: Profile, machine: Machine, terms: PowerTerms) -> tuple[Int64, NodeLog]:
    """Return when the queued jobs start, in the machine's order, and what its nodes do. No transition fails."""
    workload, state, power = copied(machine)
    size, course, depths = snapshot.usable_units, _course(snapshot, profile, terms), terms.depths
    pieces = [_already(snapshot, power)]
    asked = LOG_FULL
    while asked == LOG_FULL:
        asked = advance_powered(
            workload, NO_PEAKS, terms.rules, terms.capacity, course, depths, size, state, power, LAST_S - 1
        )
        pieces.append(_emptied(power))
    at_s, node, entered = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    log = NodeLog(size // snapshot.units_per_node, snapshot.units_per_node, at_s, node, entered)
    return state.start_s[len(snapshot.running.size) : -1], log


def _course(snapshot: Snapshot, profile: Profile, terms: PowerTerms) -> CapacitySchedule:
    """Return the profile as nodes that are to be awake."""
    at_s = np.append(profile.at_s, profile.until_s)
    units = np.append(profile.units, snapshot.usable_units)
    after_s = np.tile(terms.after_s, (len(at_s), 1))
    return CapacitySchedule(at_s, units // snapshot.units_per_node, np.zeros(len(at_s), dtype=np.int64), after_s)


def _already(snapshot: Snapshot, power: Power) -> Entries:
    """Return the entries that say how the nodes are now."""
    node = np.flatnonzero(power.table.state != ACTIVE)
    return np.full(len(node), snapshot.now_s), node.astype(np.int32), power.table.state[node]


def _emptied(power: Power) -> Entries:
    """Take the entries out of the engine's log."""
    length = int(power.scalars["log_length"][0])
    power.scalars["log_length"] = 0
    return power.log.at_s[:length].copy(), power.log.node[:length].copy(), power.log.state[:length].copy()
