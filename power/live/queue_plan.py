"""The plan of a live queue: when units of a pool become free, and which sleeping nodes the waiting jobs need. Pure.

`plan_wakes` is the entry. It brings the pool into the columns of offpeak.plugin.capacity.wake_plan, by which the engine
decides, too. As there, jobs are expected to run up to their limits.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from offpeak.model.node_states import DEPTHS, FAILED, asleep, going_down
from offpeak.plugin.capacity.wake_plan import MOST_PLANNED, ComingUnits, PlannedJobs, PoolNow, list_units, plan_queue
from offpeak.power.live.observe import RISING_DEPTH
from offpeak.power.live.pools import PoolTable, list_queued, list_running

GOING_DEPTH = {going_down(depth): depth for depth in range(len(DEPTHS))}


class PlannedNodes(NamedTuple):
    """How many nodes to wake now, and how many idle ones to keep awake."""

    wakes: int
    keep: int


def plan_wakes(pool: PoolTable, asleep_nodes: int, plan_s: int) -> PlannedNodes:
    """Return what the waiting jobs need now of a pool in which so many nodes can be woken.

    An idle node stays awake for a start within `plan_s` seconds.
    """
    now_s, per_node = pool.snapshot.now_s, pool.units_per_node
    by_limits = replace(pool.cluster, run_s={})
    usable = [row.node for row in pool.rows if row.state != FAILED]
    jobs = list_queued(pool.waiting, usable, by_limits, per_node, shared=pool.site.shared_nodes)
    count = min(len(jobs.size), MOST_PLANNED)
    if not count:
        return PlannedNodes(0, 0)
    queue = PlannedJobs(jobs.size[:count], jobs.estimate_s[:count])
    running = list_running(
        pool.rows, pool.jobs, by_limits, per_node, int((pool.is_active | pool.rising).sum()) * per_node
    )
    free = [(int(end_s), int(size)) for end_s, size in zip(running.expected_end_s, running.size, strict=True)]
    last_rise_s = now_s
    for state, busy, ready_s in zip(
        pool.state.tolist(), pool.busy.tolist(), pool.snapshot.ready_s.tolist(), strict=True
    ):
        if state in RISING_DEPTH and not busy:
            last_rise_s = max(last_rise_s, ready_s)
            free.append((ready_s, per_node))
        elif state in GOING_DEPTH:
            free.append((ready_s + pool.snapshot.wake_s[GOING_DEPTH[state]], per_node))
    room = np.zeros((2, len(free) + 2 * MOST_PLANNED + 1), dtype=np.int64)
    coming, listed = ComingUnits(*room), 0
    for at_s, units in free:
        if at_s > now_s:
            listed = list_units(coming, 0, listed, at_s, units)
    depths = {depth for depth in range(len(DEPTHS)) if (pool.state == asleep(depth)).any()}
    now = PoolNow(
        now_s=now_s,
        units_per_node=per_node,
        idle_units=int((per_node - pool.busy[pool.is_active]).sum()),
        asleep=asleep_nodes,
        wake_s=max((pool.snapshot.wake_s[depth] for depth in depths), default=0),
        keep_until_s=max(now_s + plan_s, last_rise_s),
        is_easy=True,
    )
    return PlannedNodes(*plan_queue(now, queue, count, coming, listed))


def waits_for_unknown(pool: PoolTable) -> bool:
    """Return whether the first job has not started although nodes were idle for it long enough."""
    now_s, patience_s = pool.snapshot.now_s, pool.site.start_patience_s
    first = max(pool.waiting, key=lambda job: (job.priority, -job.submit_s), default=None)
    if first is None or now_s - max(first.submit_s, first.begin_s or 0) <= patience_s:
        return False
    idle = sum(now_s - row.memory.idle_since_s > patience_s for row in pool.rows_at(pool.is_idle))
    return first.count_units(pool.units_per_node) <= idle * pool.units_per_node
