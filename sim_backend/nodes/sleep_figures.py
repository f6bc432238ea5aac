"""What sleeping nodes came to in a run: nodes saved, power cycles, what the jobs waited for it."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import DAY_S, WEEK_S
from offpeak.model.node_states import ACTIVE, OFF, STANDBY, asleep
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.step_integrals import integrate_constant
from sim_backend.nodes.energy import PoweredUsage, node_energy_and_charge, state_times
from sim_backend.nodes.node_log import NodeLog


@dataclass(frozen=True)
class SleepFigures:
    """The figures of a run with a node log, units in the names. Weeks are counted from the period's begin.

    `inactive_share` is the share of all node time in which nodes were not active: "proportion of processor savings",
    and `utilization_of_active` the jobs' unit-seconds over those of active nodes, both of Lawson and Smirni, ICS 2005.
    `state_share[state]` sums to 1. A power cycle is an entry into standby or off. `weekly_slowdown` is the mean bounded
    slowdown 1 + wait / max(10 s, run) of the jobs that ended in each week and `weekly_violations` the share of them
    above the bound: float64[weeks], NaN where none ended; `above_bound_share` is that of all jobs. `always_on_idle_j`
    is the energy of idle units under the same schedule on nodes that are always on, `idle_saved_pct` what sleeping
    saves of it, 0 where that is nothing. Jobs that never ran have no part in it.
    """

    mean_active_nodes: float
    inactive_share: float
    state_share: Float64
    utilization_of_active: float
    power_cycles: int
    power_cycles_per_node_day: float
    most_power_cycles_of_a_node: int
    mean_boot_delay_s: float
    delayed_share: float
    largest_boot_delay_s: int
    slowdown_bound: float
    weekly_slowdown: Float64
    weekly_violations: Float64
    above_bound_share: float
    always_on_idle_j: float
    idle_saved_pct: float


def sleep_figures(
    powered: PoweredUsage, submit_s: Int64, boot_delay_s: Int64, *, slowdown_bound: float
) -> SleepFigures:
    """Return the figures of a run of one job or more; a period of no time counts as a second.

    `boot_delay_s` is how long each job waited for its nodes to come up, part of its wait.
    """
    usage, log = powered.usage, powered.node_log
    usage = replace(usage, until_s=max(usage.until_s, usage.begin_s + 1))
    powered = replace(powered, usage=usage)
    period_s = usage.until_s - usage.begin_s
    seconds = state_times(integrate_constant(1.0), log, usage.begin_s, usage.until_s).seconds
    busy_s = float((usage.size * (usage.end_s - usage.start_s)).sum())
    active_unit_s = float(seconds[ACTIVE] * log.units_per_node)
    cycles = power_cycles(log, usage.begin_s, usage.until_s)
    always_on_j = usage.idle_w * (usage.machine_size * period_s - busy_s)
    used_j = node_energy_and_charge(integrate_constant(1.0), powered)[0].besides_jobs
    ran = usage.start_s >= submit_s
    start_s, end_s = usage.start_s[ran], usage.end_s[ran]
    slowdown = bounded_slowdown_by_delay(start_s - submit_s[ran], end_s - start_s)
    week, weeks = (end_s - usage.begin_s) // WEEK_S, -(-period_s // WEEK_S)
    return SleepFigures(
        mean_active_nodes=float(seconds[ACTIVE] / period_s),
        inactive_share=float(1 - seconds[ACTIVE] / seconds.sum()),
        state_share=seconds / seconds.sum(),
        utilization_of_active=busy_s / active_unit_s if active_unit_s else 0.0,
        power_cycles=int(cycles.sum()),
        power_cycles_per_node_day=float(cycles.mean() * DAY_S / period_s),
        most_power_cycles_of_a_node=int(cycles.max()),
        mean_boot_delay_s=float(boot_delay_s.mean()),
        delayed_share=float((boot_delay_s > 0).mean()),
        largest_boot_delay_s=int(boot_delay_s.max()),
        slowdown_bound=slowdown_bound,
        weekly_slowdown=weekly_mean(slowdown, week, weeks),
        weekly_violations=weekly_mean((slowdown > slowdown_bound).astype(np.float64), week, weeks),
        above_bound_share=float((slowdown > slowdown_bound).mean()),
        always_on_idle_j=always_on_j,
        idle_saved_pct=100 * (always_on_j - used_j) / always_on_j if always_on_j else 0.0,
    )


def power_cycles(log: NodeLog, begin_s: int, until_s: int) -> Int64:
    """Return how often each node fell asleep within [begin_s, until_s): int64[nodes]. A slower clock is no sleep."""
    inside = slice(*np.searchsorted(log.at_s, [begin_s, until_s]))
    node, state = log.node[inside], log.state[inside]
    fell_asleep = (state == asleep(STANDBY)) | (state == asleep(OFF))
    return np.bincount(node[fell_asleep], minlength=log.nodes).astype(np.int64)


def weekly_mean(value: Float64, week: Int64, weeks: int) -> Float64:
    """Return the mean over the jobs of each week: float64[weeks], NaN for a week without any.

    A job that ends as the last week does belongs to that week.
    """
    of_week = np.minimum(week, weeks - 1)
    jobs = np.bincount(of_week, minlength=weeks)
    total = np.bincount(of_week, weights=value, minlength=weeks)
    return np.where(jobs > 0, total / np.maximum(jobs, 1), np.nan)
