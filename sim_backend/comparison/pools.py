"""A schedule on several pools of nodes: what each pool used and how its nodes slept, by the class of its nodes.

A job on a share of a node counts as that share of a node with a job, so that nodes are split into parts here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.cluster import Cluster, NodeType
from offpeak.model.constants import HOUR_S
from offpeak.model.node_states import DEPTHS, asleep
from offpeak.model.step_integrals import Usage, charge, integrate_constant
from offpeak.sim_backend.case.replay_case import ReplayCase
from offpeak.sim_backend.nodes.bounds import lowest_for_schedule, units_in_use
from offpeak.sim_backend.nodes.node_log import NodeLog, PoweredUsage, power_cycles, state_times
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.schedule import Schedule


def stopped_runs(schedule: Schedule) -> tuple[int, float]:
    """Return how many runs were stopped for other jobs, and the node-hours that they had used."""
    stopped = np.append(schedule.cancelled, len(schedule.start_s) + np.arange(len(schedule.lost.job)))
    if not len(stopped):
        return 0, 0.0
    places = schedule.places
    _, start_s, end_s = schedule.runs
    of_stopped = np.isin(places.run, stopped)
    run_s = (end_s - start_s)[places.run[of_stopped]]
    return len(stopped), float((places.nodes[of_stopped] * run_s).sum()) / HOUR_S


def pool_usages(case: ReplayCase, schedule: Schedule, usage: Usage) -> tuple[PoweredUsage, ...]:
    """Return the usage of each pool of nodes that can sleep, none where none can; `usage` is that of the machine."""
    nodes = case.nodes
    if nodes is None:
        return ()
    if isinstance(nodes, PoweredMachine):
        logs = schedule.node_logs or (NodeLog.of_active(nodes.nodes, nodes.units_per_node),)
        usages = [usage]
    else:
        per_node, places = nodes.units_per_node, schedule.places
        nodes_of_run: Float64 = np.bincount(places.run, places.nodes).astype(np.float64)
        _, start_s, end_s = schedule.runs
        usages, found = [], []
        for pool, size in enumerate(nodes.sizes):
            rows = np.flatnonzero(places.pool == pool)
            rows = rows[np.argsort(places.job[rows], kind="stable")]
            job, run = places.job[rows], places.run[rows]
            usages.append(
                Usage(
                    size=places.nodes[rows] * per_node,
                    node_power_w=case.node_power_w[job] * (case.jobs.size[job] / (nodes_of_run[run] * per_node)),
                    start_s=start_s[run],
                    end_s=end_s[run],
                    machine_size=size * per_node,
                    idle_w=nodes.classes[pool].idle_w / per_node,
                    begin_s=usage.begin_s,
                    until_s=usage.until_s,
                )
            )
            log = NodeLog.of_active(size, per_node)
            if schedule.node_logs:
                enclosures = nodes.enclosures[pool] if nodes.enclosures else ()
                log = replace(schedule.node_logs[pool], units_per_node=per_node, enclosures=enclosures)
            found.append(log)
        logs = tuple(found)
    return tuple(
        PoweredUsage(used, log.until(usage.until_s), node_class)
        for used, log, node_class in zip(usages, logs, nodes.classes, strict=True)
    )


def lowest_of_pool(pool: PoweredUsage) -> float:
    """Return the least energy besides that of the jobs that any capacity policy can use with this schedule [J]."""
    usage = pool.usage
    most = float(units_in_use(usage)[1].max(initial=0.0))
    # Jobs that take most of different resources of a node may count as more than the node.
    if most > usage.machine_size:
        size: Float64 = (usage.size * (usage.machine_size / most) * (1 - 1e-9)).astype(np.float64)
        usage = replace(usage, size=size)
    lowest_j = lowest_for_schedule(usage, pool.node_class, units_per_node=pool.node_log.units_per_node)
    if usage is pool.usage:
        return lowest_j
    once = integrate_constant(1.0)
    return lowest_j + charge(once, pool.usage).idle - charge(once, usage).idle


@dataclass(frozen=True)
class PoolSleep:
    """How the nodes of a pool slept under a policy; cycles are entries into standby or off, per node and day."""

    node_type: NodeType
    power_class: str
    nodes: int
    asleep_node_h: float
    asleep_share: float
    cycles_per_node_day: float


def pool_sleeps(cluster: Cluster, pools: Sequence[PoweredUsage]) -> tuple[PoolSleep, ...]:
    """Return how the nodes of each pool slept, none where the nodes of the cluster are equal."""
    states = [asleep(depth) for depth in range(len(DEPTHS))]
    found = []
    for pool, used in zip(cluster.pools if pools else (), pools, strict=True):
        begin_s, until_s = used.usage.begin_s, max(used.usage.until_s, used.usage.begin_s + 1)
        seconds = state_times(integrate_constant(1.0), used.node_log, begin_s, until_s).seconds
        cycles = power_cycles(used.node_log, begin_s, until_s)
        found.append(
            PoolSleep(
                node_type=pool.node_type,
                power_class=used.node_class.name,
                nodes=pool.nodes,
                asleep_node_h=float(seconds[states].sum()) / HOUR_S,
                asleep_share=float(seconds[states].sum() / seconds.sum()),
                cycles_per_node_day=float(cycles.mean()) * 24 * HOUR_S / (until_s - begin_s),
            )
        )
    return tuple(found)
