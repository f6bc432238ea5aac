"""The node log of a powered replay, the state changes of nodes, and its energy and sleep figures.

Energy, money and CO2 are integrated exactly, split into jobs, idle, asleep, in transition and failed. The units of a
running job draw the job's power, whatever their node. Idle units are all units of active nodes less those of the
running jobs; a node in any other state draws the power of that state.

The sleep figures are the inactive nodes, the power cycles, and the waits of jobs for sleeping nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, OFF, STANDBY, STATES, asleep, coming_up, going_down
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.step_integrals import (
    Charge,
    StepIntegral,
    Usage,
    energy_and_charge,
    integrate_constant,
    interval_at,
    total_at,
)

Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
ASLEEP = (asleep(STANDBY), asleep(OFF))
"""The states in which the overhead of an enclosure ends, once all its nodes are in them."""


@dataclass(frozen=True)
class NodeLog:
    """Entry `i`: at `at_s[i]` [trace seconds] node `node[i]` enters `state[i]`, a number of `model.node_states`.

    Entries are in time order; of several entries of a node within a second the last one holds. Before its first entry a
    node is active. The last nodes are in `enclosures`, each so many of its nodes. Raises OffpeakError if times go back,
    or a node or a state does not exist.
    """

    nodes: int
    units_per_node: int
    at_s: Int64
    node: Int32
    state: Int8
    enclosures: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not len(self.at_s) == len(self.node) == len(self.state):
            raise OffpeakError("node log: its columns differ in length", hint="each entry has a time, a node, a state")
        _check(self.at_s[1:] >= self.at_s[:-1], "goes back in time behind entry", "write entries as time goes on")
        _check(
            (self.node >= 0) & (self.node < self.nodes),
            "has an unknown node in entry",
            f"nodes are numbered from 0 to {self.nodes - 1}",
        )
        _check(
            (self.state >= 0) & (self.state < STATES),
            "has an unknown state in entry",
            "offpeak.model.node_states lists the states",
        )

    def __len__(self) -> int:
        return len(self.at_s)

    @classmethod
    def of_active(cls, nodes: int, units_per_node: int) -> "NodeLog":
        """Return the log of nodes that are always active."""
        none = np.empty(0, np.int64)
        return cls(nodes, units_per_node, none, none.astype(np.int32), none.astype(np.int8))

    @property
    def units(self) -> int:
        """The allocation units of all nodes."""
        return self.nodes * self.units_per_node

    def until(self, until_s: int) -> "NodeLog":
        """Return the log up to that second."""
        kept = int(np.searchsorted(self.at_s, until_s))
        return replace(self, at_s=self.at_s[:kept], node=self.node[:kept], state=self.state[:kept])

    def counts(self, begin_s: int) -> "StateCounts":
        """Return how many nodes are in each state, from `begin_s` on."""
        at_s = np.append(begin_s, self.at_s[self.at_s > begin_s])
        at_s = at_s[np.append(True, at_s[1:] > at_s[:-1])]
        return StateCounts(at_s, _counts(at_s, self.at_s, self.node, self.state, self.nodes))


def join_node_logs(logs: Sequence[NodeLog]) -> NodeLog:
    """Return the log of all nodes, those of the first log first; one log is the whole with its enclosures."""
    if len(logs) == 1:
        return logs[0]
    first = np.cumsum([0, *(log.nodes for log in logs)])
    at_s = np.concatenate([log.at_s for log in logs])
    order = np.argsort(at_s, kind="stable")
    node = np.concatenate([log.node + before for log, before in zip(logs, first[:-1], strict=True)])
    state = np.concatenate([log.state for log in logs])
    return NodeLog(int(first[-1]), logs[0].units_per_node, at_s[order], node[order].astype(np.int32), state[order])


@dataclass(frozen=True)
class StateCounts:
    """From `at_s[i]` on, `nodes[i, state]` nodes are in each state: int64[p], rising, and int32[p, STATES]."""

    at_s: Int64
    nodes: Int32


def _check(good: NDArray[np.bool_], problem: str, hint: str) -> None:
    if not good.all():
        raise OffpeakError(f"node log: {problem} {int(np.argmin(good))}", hint=hint)


@kernel
def _counts(edges_s: Int64, at_s: Int64, node: Int32, state: Int8, nodes: int) -> Int32:
    """Return the counts between consecutive `edges_s`, which contain all times of the log after its first."""
    counts = np.empty((len(edges_s), STATES), dtype=np.int32)
    now = np.zeros(STATES, dtype=np.int32)
    now[ACTIVE] = nodes
    present = np.full(nodes, ACTIVE, dtype=np.int8)
    piece = 0
    for entry in range(len(at_s)):
        while at_s[entry] > edges_s[piece]:
            counts[piece] = now
            piece += 1
        now[present[node[entry]]] -= 1
        now[state[entry]] += 1
        present[node[entry]] = state[entry]
    counts[piece] = now
    return counts


@dataclass(frozen=True)
class PoweredUsage:
    """The usage of the machine by jobs, and the states of its nodes.

    An idle unit of an active node draws `usage.idle_w`; in the other states a node draws the power of its class. Raises
    OffpeakError unless the machine is whole nodes.
    """

    usage: Usage
    node_log: NodeLog
    node_class: NodeClass

    def __post_init__(self) -> None:
        if self.usage.machine_size != self.node_log.units:
            raise OffpeakError(
                f"{self.usage.machine_size} units are not the {self.node_log.units} of {self.node_log.nodes} nodes",
                hint=f"a machine is whole nodes of {self.node_log.units_per_node} units",
            )


@dataclass(frozen=True)
class NodeCharge:
    """The integral of power times a series, in W times the series' unit times s; joules if the series is 1.

    `jobs` is the part of running jobs, `idle` of active units without a job, `asleep[depth]` of nodes in each depth,
    `transitions` of nodes on the way into and out of them, `failed` of hung nodes.
    """

    jobs: float
    idle: float
    asleep: tuple[float, ...]
    transitions: float
    failed: float

    @property
    def besides_jobs(self) -> float:
        """The part that a capacity policy can lower: all except the jobs."""
        return self.idle + sum(self.asleep) + self.transitions + self.failed

    @property
    def total(self) -> float:
        """The total of the cluster."""
        return self.jobs + self.besides_jobs


@dataclass(frozen=True)
class StateTimes:
    """Over all nodes, by state: node-seconds int64[STATES], and the integrals of a meter's series float64[STATES].

    `beside` are those of nodes that sleep while another node of their enclosure is awake: seconds and integral.
    """

    seconds: Int64
    integral: Float64
    beside: tuple[int, float]


def state_times(meter: StepIntegral, log: NodeLog, begin_s: int, until_s: int) -> StateTimes:
    """Return how long the nodes were in each state within [begin_s, until_s)."""
    series, entries = (meter.at_s, meter.value, meter.total), (log.at_s, log.node, log.state)
    inside, whole = np.array(log.enclosures, np.int64).reshape(-1, 2).T
    enclosure = np.append(np.full(log.nodes - inside.sum(), -1), np.repeat(np.arange(len(inside)), inside))
    return StateTimes(*_state_times(series, entries, (enclosure, whole), begin_s, until_s))


@kernel
def _state_times(
    series: tuple[Int64, Float64, Float64],
    entries: tuple[Int64, Int32, Int8],
    enclosures: tuple[Int64, Int64],
    begin_s: int,
    until_s: int,
) -> tuple[Int64, Float64, tuple[int, float]]:
    at_s, value, total = series
    entry_s, node, state = entries
    enclosure, whole = enclosures
    nodes, away, beside_s, beside = len(enclosure), np.zeros(len(whole), dtype=np.int64), 0, 0.0
    seconds, integral = np.zeros(STATES, dtype=np.int64), np.zeros(STATES)
    present = np.full(nodes, ACTIVE, dtype=np.int8)
    at = interval_at(at_s, 0, begin_s)
    since_s, since = np.full(nodes, begin_s), np.full(nodes, total_at(at_s, value, total, at, begin_s))
    last_s, last = np.full(len(whole), begin_s), np.full(len(whole), since[0])
    # After the last entry of the log every node leaves its state at the end of the period.
    for entry in range(len(entry_s) + nodes):
        closing = entry >= len(entry_s)
        second = until_s if closing else min(max(entry_s[entry], begin_s), until_s)
        which = entry - len(entry_s) if closing else node[entry]
        at = interval_at(at_s, at, second)
        now = total_at(at_s, value, total, at, second)
        seconds[present[which]] += second - since_s[which]
        integral[present[which]] += now - since[which]
        since_s[which], since[which] = second, now
        was, present[which] = present[which], ACTIVE if closing else state[entry]
        of = enclosure[which]
        if of >= 0:
            if away[of] < whole[of]:
                beside_s += away[of] * (second - last_s[of])
                beside += away[of] * (now - last[of])
            last_s[of], last[of] = second, now
            away[of] += int(present[which] in ASLEEP) - int(was in ASLEEP)
    return seconds, integral, (beside_s, beside)


def node_energy_and_charge(meter: StepIntegral, powered: PoweredUsage) -> tuple[NodeCharge, NodeCharge]:
    """Return the energy [J], and the same weighted by the meter's series, over the period of the usage."""
    usage = powered.usage
    times = state_times(meter, powered.node_log, usage.begin_s, usage.until_s)
    # With an idle power of 1 W the idle charge is unit-time, which stays exact when sleep is subtracted.
    energy, charged = energy_and_charge(meter, replace(usage, idle_w=1.0))
    return (
        _parts(powered, energy, times.seconds, times.beside[0]),
        _parts(powered, charged, times.integral, times.beside[1]),
    )


def _parts(
    powered: PoweredUsage, all_active: Charge, in_state: NDArray[np.int64] | Float64, beside: float
) -> NodeCharge:
    away = in_state[np.arange(STATES) != ACTIVE].sum()
    idle = powered.usage.idle_w * (all_active.idle - powered.node_log.units_per_node * away)
    used = powered.node_class.state_w() * in_state
    used[asleep(OFF)] += powered.node_class.overhead_w * beside
    ways = [way(depth) for depth in range(len(DEPTHS)) for way in (going_down, coming_up)]
    return NodeCharge(
        jobs=all_active.jobs,
        idle=float(idle),
        asleep=tuple(float(used[asleep(depth)]) for depth in range(len(DEPTHS))),
        transitions=float(used[ways].sum()),
        failed=float(used[FAILED]),
    )


@dataclass(frozen=True)
class SleepFigures:
    """The figures of a run with a node log. Weeks are counted from the start of the period.

    `inactive_share` is the share of all node time in which nodes were not active: "proportion of processor savings",
    and `utilization_of_active` the jobs' unit-seconds over those of active nodes, both of Lawson and Smirni, ICS 2005.
    A power cycle is an entry into standby or off. `weekly_slowdown` is the mean bounded
    slowdown 1 + wait / max(10 s, run) of the jobs that ended in each week and `weekly_violations` the share of them
    above the bound: float64[weeks], NaN if none ended; `above_bound_share` is the share of all jobs.
    `always_on_idle_j` is the energy of idle units under the same schedule on nodes that are always on, `idle_saved_pct`
    the percentage of it that sleeping saves, 0 if that energy is 0. Jobs that never ran are excluded.
    """

    inactive_share: float
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
    pools: Sequence[PoweredUsage], usage: Usage, submit_s: Int64, boot_delay_s: Int64, *, slowdown_bound: float
) -> SleepFigures:
    """Return the figures of a run of at least one job on these pools of nodes; an empty period counts as a second.

    `usage` is that of all jobs, `boot_delay_s` how long each job waited for its nodes to come up, part of its wait.
    """
    usage = replace(usage, until_s=max(usage.until_s, usage.begin_s + 1))
    pools = [replace(pool, usage=replace(pool.usage, until_s=usage.until_s)) for pool in pools]
    period_s = usage.until_s - usage.begin_s
    once = integrate_constant(1.0)
    times = [state_times(once, pool.node_log, usage.begin_s, usage.until_s).seconds for pool in pools]
    seconds: Int64 = np.sum(times, axis=0)
    busy = [float((pool.usage.size * (pool.usage.end_s - pool.usage.start_s)).sum()) for pool in pools]
    busy_s = sum(busy)
    active_unit_s = sum(
        float(in_state[ACTIVE] * pool.node_log.units_per_node) for in_state, pool in zip(times, pools, strict=True)
    )
    cycles = np.concatenate([power_cycles(pool.node_log, usage.begin_s, usage.until_s) for pool in pools])
    always_on_j = sum(
        pool.usage.idle_w * (pool.usage.machine_size * period_s - of_jobs_s)
        for pool, of_jobs_s in zip(pools, busy, strict=True)
    )
    used_j = sum(node_energy_and_charge(once, pool)[0].besides_jobs for pool in pools)
    ran = usage.start_s >= submit_s
    start_s, end_s = usage.start_s[ran], usage.end_s[ran]
    slowdown = bounded_slowdown_by_delay(start_s - submit_s[ran], end_s - start_s)
    week, weeks = (end_s - usage.begin_s) // WEEK_S, -(-period_s // WEEK_S)
    return SleepFigures(
        inactive_share=float(1 - seconds[ACTIVE] / seconds.sum()),
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
    """Return how often each node fell asleep within [begin_s, until_s), powersave apart: int64[nodes]."""
    inside = slice(*np.searchsorted(log.at_s, [begin_s, until_s]))
    node, state = log.node[inside], log.state[inside]
    fell_asleep = (state == asleep(STANDBY)) | (state == asleep(OFF))
    return np.bincount(node[fell_asleep], minlength=log.nodes).astype(np.int64)


def weekly_mean(value: Float64, week: Int64, weeks: int) -> Float64:
    """Return the mean over the jobs of each week: float64[weeks], NaN for a week without jobs.

    A job that ends at the end of the last week belongs to that week.
    """
    of_week = np.minimum(week, weeks - 1)
    jobs = np.bincount(of_week, minlength=weeks)
    total = np.bincount(of_week, weights=value, minlength=weeks)
    return np.where(jobs > 0, total / np.maximum(jobs, 1), np.nan)
