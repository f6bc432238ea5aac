"""Expected waits of jobs of each size if they were submitted now, by a simulation of the whole cluster as one
machine.
"""

from collections.abc import Mapping

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, WEEK_S
from offpeak.model.node_states import DEPTHS
from offpeak.model.snapshot import Snapshot, all_active
from plugin.federation.site_report import WaitTable
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import SchedulerView
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_record import Instant
from power.live.cluster_snapshot import ClusterSnapshot
from power.live.pool_state import count_units, holds_nodes, is_waiting, queued_jobs, running_jobs
from power.whatif.simulation import simulate_waits_s

TIME_LIMITS_S = (900, HOUR_S, 4 * HOUR_S, 12 * HOUR_S, DAY_S, 3 * DAY_S, WEEK_S)


def is_usable(node: Node) -> bool:
    """Whether jobs can count on the node. A failed node does not count, nor a free node that an admin keeps closed."""
    kept = node.closed and not node.closed_by_us and node.use is NodeUse.FREE
    return not (node.failed or kept)


def find_unit_size(nodes: tuple[Node, ...], *, shared: bool) -> tuple[int, int]:
    """Return cores per unit and units per node. Units are cores if jobs share nodes and all nodes are equal, else
    nodes.
    """
    cpus = sorted(node.cpus for node in nodes)
    if not cpus:
        return 1, 1
    if shared and cpus[0] == cpus[-1]:
        return 1, max(cpus[0], 1)
    return max(cpus[len(cpus) // 2], 1), 1


def simulate_waits(view: SchedulerView, run_s: Mapping[str, int], *, shared: bool) -> WaitTable:
    """Return the waits of jobs of one unit up to all units, behind the known jobs under EASY, without boot times.

    Jobs run as long as `run_s` predicts, by id, else to their limits.
    """
    nodes = tuple(filter(is_usable, view.nodes))
    unit_cores, per_node = find_unit_size(nodes, shared=shared)
    snapshot = _make_snapshot(view, run_s, nodes, per_node)
    sizes = _list_sizes(snapshot.usable_units)
    if not len(sizes):
        return WaitTable()
    size, limit_s = (each.ravel() for each in np.meshgrid(sizes, np.array(TIME_LIMITS_S), indexing="ij"))
    waits_s = simulate_waits_s(snapshot, size, limit_s).reshape(len(sizes), -1)
    cores = tuple((sizes * unit_cores).tolist())
    return WaitTable(cores, TIME_LIMITS_S, tuple(tuple(row) for row in waits_s.tolist()))


def _list_sizes(units: int) -> Int64:
    """Return 1, 2, 4 ... and all units."""
    powers = 2 ** np.arange(units.bit_length(), dtype=np.int64)
    return np.unique(np.append(powers[powers <= units], [units] if units else []).astype(np.int64))


def _make_snapshot(view: SchedulerView, run_s: Mapping[str, int], nodes: tuple[Node, ...], per_node: int) -> Snapshot:
    cluster = ClusterSnapshot(Instant(0.0, float(view.at_s)), view, NodeRecords(), run_s)
    units = len(nodes) * per_node
    held = [(job, count_units(job, per_node)) for job in view.jobs if holds_nodes(job)]
    waiting = [job for job in view.jobs if is_waiting(job, view.at_s)]
    state, ready_s = all_active(len(nodes), now_s=view.at_s)
    return Snapshot(
        now_s=view.at_s,
        units_per_node=per_node,
        node_state=state,
        ready_s=ready_s,
        wake_s=(0,) * len(DEPTHS),
        running=running_jobs(held, cluster, units),
        queued=queued_jobs(waiting, nodes, cluster, per_node, shared=per_node > 1),
    )
