"""Late binding: a job whose nodes still come up starts on others that became free, where these are enough."""

import numpy as np

from offpeak.bits import lowest_bit
from offpeak.compiled import index, part
from offpeak.model.node_states import ACTIVE
from plugin.capacity.rules import CapacityRules, CapacitySchedule
from sim_backend.engine.ends import push
from sim_backend.engine.nodes import NO_PIECE, WORD_NODES, take_nodes
from sim_backend.engine.power import Power
from sim_backend.engine.power_jobs import hold_active, release_powered
from sim_backend.engine.profile import add_free, held_until_s
from sim_backend.engine.starts import expect_end
from sim_backend.engine.state import NEVER, State, Workload

NO_SLOT = -1


@part
def units_coming_up(state: State, power: Power, slot: int) -> int:
    """Return how many units of the job in `slot` are on nodes that are not active."""
    units = 0
    piece = state.slots.pieces[index(slot)]
    while piece != NO_PIECE:
        mask = state.nodes.piece_mask[index(piece)]
        while mask != np.uint64(0):
            unit = state.nodes.piece_word[index(piece)] * WORD_NODES + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            if power.table.state[index(unit // power.scalars[0].units_per_node)] != ACTIVE:
                units += 1
        piece = state.nodes.piece_next[index(piece)]
    return units


@part
def next_to_rebind(state: State, behind: int) -> int:
    """Return the slot of the first job, by its start number above `behind`, that waits for its nodes, or NO_SLOT."""
    now = state.scalars[0]
    found = NO_SLOT
    first = NEVER
    for at in range(now.listed):
        slot = state.expected[index(at)]
        started = state.slots.started[index(slot)]
        if behind < started < first and state.start_s[index(state.slots.job[index(slot)])] > now.now_s:
            found = slot
            first = started
    return int(found)


@part
def begin_now(workload: Workload, state: State, power: Power, course: CapacitySchedule, slot: int) -> None:
    """Give the job of `slot` idle nodes for those that come up, and let it run."""
    now = state.scalars[0]
    held = index(slot)
    job = index(state.slots.job[held])
    planned_s = state.slots.expected_end_s[held] - state.start_s[job]
    release_powered(state, power, course, slot)
    head = take_nodes(state.nodes, state.slots.size[held])
    hold_active(state, power, head)
    state.slots.pieces[held] = head
    power.doomed[held] = 0
    state.start_s[job] = now.now_s
    state.slots.end_s[held] = now.now_s + workload.runtime_s[job]
    expect_end(state, slot, now.now_s + planned_s)
    if now.breakpoints > 0:
        add_free(state, now.now_s, held_until_s(state, slot), -state.slots.size[held])
    at = 0
    while state.ends[index(at)] != slot:
        at += 1
    push(state.ends, at, state.slots, slot)
    now.next_end_s = state.slots.end_s[index(state.ends[0])]


@part
def rebind(workload: Workload, state: State, power: Power, rules: CapacityRules, course: CapacitySchedule) -> None:
    """Start the jobs that wait for nodes to come up and for which others have become free, the first given first."""
    now = state.scalars[0]
    nodes = power.scalars[0]
    if not rules.late or nodes.last_up_s <= now.now_s or nodes.idle_units == 0:
        return
    slot = next_to_rebind(state, -1)
    while slot != NO_SLOT and nodes.idle_units > 0:
        started = state.slots.started[index(slot)]
        if units_coming_up(state, power, slot) <= nodes.idle_units:
            begin_now(workload, state, power, course, slot)
        slot = next_to_rebind(state, started)
