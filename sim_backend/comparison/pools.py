"""A schedule on several pools of nodes: what each pool used and how its nodes slept, by the class of its nodes.

A job on a share of a node counts as that share of a node with a job, so that nodes are split into parts here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.cluster import Cluster, NodeType
from offpeak.model.constants import HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS, asleep
from offpeak.model.step_integrals import Usage, charge, integrate_constant
from sim_backend.case.replay_case import ReplayCase
from sim_backend.mixed.powered import PoweredMixedSchedule
from sim_backend.mixed.replay import MixedSchedule
from sim_backend.nodes.bounds import lowest_for_schedule, units_in_use
from sim_backend.nodes.node_log import NodeLog, PoweredUsage, power_cycles, state_times
from sim_backend.replay.schedule import Schedule


def pooled_schedule(played: MixedSchedule) -> PoweredMixedSchedule:
    """Return the schedule of a mixed replay, without node logs where no node can sleep."""
    if isinstance(played, PoweredMixedSchedule):
        return played
    return PoweredMixedSchedule(**vars(played), node_logs=(), sleep_delay_s=np.zeros_like(played.start_s))


def stopped_runs(schedule: Schedule) -> tuple[int, float]:
    """Return how many runs were stopped for other jobs, and the node-hours that they had used."""
    if not isinstance(schedule, MixedSchedule):
        return 0, 0.0
    stopped = np.append(schedule.cancelled, len(schedule.start_s) + np.arange(len(schedule.lost.job)))
    _, start_s, end_s = schedule.runs
    of_stopped = np.isin(schedule.placed_run, stopped)
    run_s = (end_s - start_s)[schedule.placed_run[of_stopped]]
    return len(stopped), float((schedule.placed_nodes[of_stopped] * run_s).sum()) / HOUR_S


def pool_usages(
    case: ReplayCase, schedule: PoweredMixedSchedule, begin_s: int, until_s: int
) -> tuple[PoweredUsage, ...]:
    """Return the usage of each pool over the period [begin_s, until_s), in allocation units of the case."""
    assert case.pools is not None
    nodes: Float64 = np.bincount(schedule.placed_run, schedule.placed_nodes).astype(np.float64)
    return tuple(
        PoweredUsage(
            _usage(case, schedule, pool, node_class, nodes, (begin_s, until_s)),
            _log(case, schedule, pool).until(until_s),
            node_class,
        )
        for pool, node_class in enumerate(case.pools.classes)
    )


def _usage(
    case: ReplayCase,
    schedule: PoweredMixedSchedule,
    pool: int,
    node_class: NodeClass,
    nodes: Float64,
    period_s: tuple[int, int],
) -> Usage:
    assert case.pools is not None
    per_node = case.pools.units_per_node
    rows = np.flatnonzero(schedule.placed_pool == pool)
    rows = rows[np.argsort(schedule.placed_job[rows], kind="stable")]
    job, run = schedule.placed_job[rows], schedule.placed_run[rows]
    _, start_s, end_s = schedule.runs
    return Usage(
        size=schedule.placed_nodes[rows] * per_node,
        node_power_w=case.node_power_w[job] * (case.jobs.size[job] / (nodes[run] * per_node)),
        start_s=start_s[run],
        end_s=end_s[run],
        machine_size=case.pools.sizes[pool] * per_node,
        idle_w=node_class.idle_w / per_node,
        begin_s=period_s[0],
        until_s=period_s[1],
    )


def _log(case: ReplayCase, schedule: PoweredMixedSchedule, pool: int) -> NodeLog:
    assert case.pools is not None
    if schedule.node_logs:
        enclosures = case.pools.enclosures[pool] if case.pools.enclosures else ()
        return replace(schedule.node_logs[pool], units_per_node=case.pools.units_per_node, enclosures=enclosures)
    return NodeLog.of_active(case.pools.sizes[pool], case.pools.units_per_node)


def joined_log(pools: Sequence[PoweredUsage]) -> NodeLog:
    """Return the log of all nodes, those of the first pool first."""
    logs = [pool.node_log for pool in pools]
    first = np.cumsum([0, *(log.nodes for log in logs)])
    at_s = np.concatenate([log.at_s for log in logs])
    order = np.argsort(at_s, kind="stable")
    node = np.concatenate([log.node + before for log, before in zip(logs, first[:-1], strict=True)])
    state = np.concatenate([log.state for log in logs])
    return NodeLog(int(first[-1]), logs[0].units_per_node, at_s[order], node[order].astype(np.int32), state[order])


def lowest_of_pool(pool: PoweredUsage) -> float:
    """Return the least energy besides that of the jobs that any capacity policy can use with this schedule [J]."""
    usage = pool.usage
    most = float(units_in_use(usage)[1].max(initial=0.0))
    # Jobs that take most of different resources of a node may count as more than the node.
    if most > usage.machine_size:
        size: Float64 = (usage.size * (usage.machine_size / most) * (1 - 1e-9)).astype(np.float64)
        usage = replace(usage, size=size)
    lowest_j = lowest_for_schedule(usage, pool.node_class, units_per_node=pool.node_log.units_per_node)
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
