"""Energy, money and CO2 of nodes that sleep, integrated exactly: jobs, idle, asleep, in transition, failed.

A running job's units draw the job's power, whatever their node. The units of active nodes that run no job are all units
of active nodes less those of the running jobs; a node in any other state draws what that state draws.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, STATES, asleep, coming_up, going_down
from offpeak.model.step_integrals import Charge, StepIntegral, Usage, energy_and_charge, interval_at, total_at
from sim_backend.nodes.node_log import Int8, Int32, NodeLog


@dataclass(frozen=True)
class PoweredUsage:
    """Who used the machine when, and what its nodes did meanwhile.

    An idle unit of an active node draws `usage.idle_w`; in the other states a node draws what its class does.
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
    """The integral of power times a series, in watts times the series' unit x s; joules where the series is 1.

    `jobs` ran; `idle` units were active without a job; `asleep[depth]` was drawn in each depth, `transitions` on the
    way into and out of them, `failed` by nodes that hung.
    """

    jobs: float
    idle: float
    asleep: tuple[float, ...]
    transitions: float
    failed: float

    @property
    def besides_jobs(self) -> float:
        """All but the jobs: what a capacity policy can lower."""
        return self.idle + sum(self.asleep) + self.transitions + self.failed

    @property
    def total(self) -> float:
        """What the cluster used."""
        return self.jobs + self.besides_jobs


@dataclass(frozen=True)
class StateTimes:
    """Over all nodes, by state: node-seconds int64[STATES], and the integrals of a meter's series float64[STATES]."""

    seconds: Int64
    integral: Float64


def state_times(meter: StepIntegral, log: NodeLog, begin_s: int, until_s: int) -> StateTimes:
    """Return how long the nodes were in each state within [begin_s, until_s)."""
    series = (meter.at_s, meter.value, meter.total)
    return StateTimes(*_state_times(*series, log.at_s, log.node, log.state, log.nodes, begin_s, until_s))


@kernel
def _state_times(
    at_s: Int64,
    value: Float64,
    total: Float64,
    entry_s: Int64,
    node: Int32,
    state: Int8,
    nodes: int,
    begin_s: int,
    until_s: int,
) -> tuple[Int64, Float64]:
    seconds, integral = np.zeros(STATES, dtype=np.int64), np.zeros(STATES)
    present = np.full(nodes, ACTIVE, dtype=np.int8)
    at = interval_at(at_s, 0, begin_s)
    since_s, since = np.full(nodes, begin_s), np.full(nodes, total_at(at_s, value, total, at, begin_s))
    # Behind the log's last entry every node is taken to leave its state when the period ends.
    for entry in range(len(entry_s) + nodes):
        closing = entry >= len(entry_s)
        second = until_s if closing else min(max(entry_s[entry], begin_s), until_s)
        which = entry - len(entry_s) if closing else node[entry]
        at = interval_at(at_s, at, second)
        now = total_at(at_s, value, total, at, second)
        seconds[present[which]] += second - since_s[which]
        integral[present[which]] += now - since[which]
        since_s[which], since[which] = second, now
        present[which] = ACTIVE if closing else state[entry]
    return seconds, integral


def node_energy_and_charge(meter: StepIntegral, powered: PoweredUsage) -> tuple[NodeCharge, NodeCharge]:
    """Return the energy [J], and the same weighted by the meter's series, over the period of the usage."""
    usage = powered.usage
    times = state_times(meter, powered.node_log, usage.begin_s, usage.until_s)
    # An idle draw of 1 W makes the idle units' charge their time: it stays exact where sleep is taken off.
    energy, charged = energy_and_charge(meter, replace(usage, idle_w=1.0))
    return _parts(powered, energy, times.seconds), _parts(powered, charged, times.integral)


def _parts(powered: PoweredUsage, all_active: Charge, in_state: NDArray[np.int64] | Float64) -> NodeCharge:
    away = in_state[np.arange(STATES) != ACTIVE].sum()
    idle = powered.usage.idle_w * (all_active.idle - powered.node_log.units_per_node * away)
    used = powered.node_class.state_w() * in_state
    ways = [way(depth) for depth in range(len(DEPTHS)) for way in (going_down, coming_up)]
    return NodeCharge(
        jobs=all_active.jobs,
        idle=float(idle),
        asleep=tuple(float(used[asleep(depth)]) for depth in range(len(DEPTHS))),
        transitions=float(used[ways].sum()),
        failed=float(used[FAILED]),
    )
