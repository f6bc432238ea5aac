"""Random small snapshots: nodes in every state, jobs that fit the nodes they run on, late ones, ties."""

import numpy as np
from hypothesis import strategies as st
from plain_scheduler import PlainJob, PlainScheduler
from random_logs import PLAIN

from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, STATES, asleep, coming_up, going_down
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.sim_backend.engine.rules import SchedulingRules

NOW_S = 1000


def columns(rows, width) -> list[np.ndarray]:
    """Return the columns of rows of `width` numbers."""
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


def snapshot_of(
    *, running=(), queued=(), node_state=(), ready_s=None, units_per_node=1, wake_s=(1, 20, 180)
) -> Snapshot:
    """Return a snapshot of rows (size, submit, start, expected end) and (size, submit, estimate)."""
    state = np.array(node_state, dtype=np.int8)
    ready = np.full(len(state), NOW_S) if ready_s is None else np.array(ready_s)
    jobs = RunningJobs(*columns(running, 4)), QueuedJobs(*columns(queued, 3))
    return Snapshot(NOW_S, units_per_node, state, ready, tuple(wake_s), *jobs)


@st.composite
def snapshots(draw, *, most_queued=12) -> Snapshot:
    """Up to 10 nodes of 1, 2 or 4 units. Running jobs hold units of active nodes and of nodes that come up."""
    per_node = draw(st.sampled_from([1, 1, 2, 4]))
    states = [ACTIVE] * 5 + list(range(STATES))
    state = [ACTIVE, *draw(st.lists(st.sampled_from(states), max_size=9))]
    up = [ACTIVE, *(coming_up(depth) for depth in range(len(DEPTHS)))]
    moving = [coming_up(depth) for depth in range(len(DEPTHS))] + [going_down(depth) for depth in range(len(DEPTHS))]
    ready_s = [NOW_S + draw(st.integers(-3, 30)) if held in moving else NOW_S for held in state]
    left = per_node * sum(held in up for held in state)
    running = []
    while left > 0 and draw(st.booleans()):
        size = draw(st.integers(1, left))
        left -= size
        start_s = NOW_S - draw(st.integers(-5, 40))
        running.append((size, start_s - draw(st.integers(0, 30)), start_s, start_s + draw(st.integers(1, 60))))
    usable = per_node * sum(held != FAILED for held in state)
    job = st.tuples(st.integers(1, usable), st.integers(NOW_S - 50, NOW_S), st.integers(0, 25))
    queued = draw(st.lists(job, max_size=most_queued))
    wake_s = draw(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 40)))
    return snapshot_of(
        running=sorted(running, key=lambda row: row[2]), queued=queued, node_state=state, ready_s=ready_s,
        units_per_node=per_node, wake_s=wake_s,
    )  # fmt: skip


def up_s(snapshot: Snapshot, node: int) -> int:
    """Return when a node could run jobs, were it woken now."""
    state, ready_s = snapshot.node_state[node], max(int(snapshot.ready_s[node]), NOW_S + 1)
    for depth, wake_s in enumerate(snapshot.wake_s):
        if state == asleep(depth):
            return NOW_S + wake_s
        if state == coming_up(depth):
            return ready_s
        if state == going_down(depth):
            return ready_s + wake_s
    return NOW_S


def plain_starts(snapshot: Snapshot, units: int, rules: SchedulingRules) -> list[int]:
    """Return when the plain scheduler starts the queued jobs. Every unit that is not up is a job of its own."""
    usable = [node for node in range(len(snapshot.node_state)) if snapshot.node_state[node] != FAILED]
    unit_up_s = sorted(up_s(snapshot, node) for node in usable for _ in range(snapshot.units_per_node))
    later_s = [at_s for at_s in unit_up_s[snapshot.units_in_use : units] if at_s > NOW_S]
    rows = zip(snapshot.running.expected_end_s.tolist(), snapshot.running.size.tolist(), strict=True)
    held = [(max(end_s, NOW_S + 1), size) for end_s, size in rows] + [(at_s, 1) for at_s in later_s]
    waiting = zip(snapshot.queued.estimate_s.tolist(), snapshot.queued.size.tolist(), strict=True)
    jobs = [PlainJob(NOW_S, end_s - NOW_S, end_s - NOW_S, size, 0.0, 0) for end_s, size in held]
    jobs += [PlainJob(NOW_S, max(run_s, 1), max(run_s, 1), size, 0.0, 0) for run_s, size in waiting]
    if not jobs:
        return []
    scheduler = PlainScheduler(jobs, units, PLAIN._replace(discipline=rules.discipline), [])
    scheduler.submitted = len(held)
    for number in range(len(held)):
        scheduler.running.append(number)
        scheduler.start_s[number] = NOW_S
        scheduler.planned_s[number] = jobs[number].estimate_s
    return scheduler.run()[len(held) :]
