"""What a schedule on nodes that sleep used: its node log laid beside its jobs, and charged like any other."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.node_states import FAILED
from offpeak.model.step_integrals import Charge, StepIntegral, Usage
from sim_backend.nodes.energy import NodeCharge, PoweredUsage, node_energy_and_charge
from sim_backend.nodes.node_log import NodeLog
from sim_backend.outcome import Charges, Meters
from sim_backend.powered_replay import PoweredMachine, PoweredSchedule
from sim_backend.replay import Schedule


def powered_usage(schedule: Schedule, usage: Usage, machine: PoweredMachine) -> PoweredUsage:
    """Return the usage with what the nodes did: nothing, where the schedule is of nodes that are always on."""
    if isinstance(schedule, PoweredSchedule):
        return PoweredUsage(usage, schedule.node_log.until(usage.until_s), machine.node_class)
    always_on = NodeLog(machine.nodes, machine.units_per_node, _none(np.int64), _none(np.int32), _none(np.int8))
    return PoweredUsage(usage, always_on, machine.node_class)


def _none(kind: type[np.generic]) -> np.ndarray:
    return np.empty(0, dtype=kind)


def sleep_delay_s(schedule: Schedule) -> Int64:
    """Return how long sleeping nodes kept each job from running [s]."""
    return schedule.sleep_delay_s if isinstance(schedule, PoweredSchedule) else np.zeros_like(schedule.start_s)


def failed_nodes(schedule: Schedule) -> int:
    """Return how many nodes had failed at the end of the replay."""
    if not isinstance(schedule, PoweredSchedule):
        return 0
    return int((schedule.node_log.counts(0).nodes[-1])[FAILED])


def powered_charges_of(powered: PoweredUsage, meters: Meters) -> Charges:
    """Return what the machine used over the period; all but the jobs counts as idle."""
    energy, cost = (_charge(part) for part in node_energy_and_charge(meters.price, powered))
    known_j = _weighted(meters.known, powered).total if meters.known else energy.total
    carbon = _weighted(meters.carbon, powered) if meters.carbon else None
    return Charges(energy, cost, energy.total - known_j, carbon)


def _weighted(meter: StepIntegral, powered: PoweredUsage) -> Charge:
    return _charge(node_energy_and_charge(meter, powered)[1])


def _charge(charge: NodeCharge) -> Charge:
    return Charge(charge.jobs, charge.besides_jobs)
