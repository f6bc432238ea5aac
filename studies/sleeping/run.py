"""Runs one experiment: a pure function of the log, the policy and the seed."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from plugin.capacity.port import Fleet
from power.capacity.registry import make_capacity_policy
from sim_backend.nodes.node_log import PoweredUsage, SleepFigures, sleep_figures
from sim_backend.policy import parse_policy
from sim_backend.powered_replay import PoweredMachine, replay_powered
from studies.dynamic_pricing.arrange import offered_load
from studies.dynamic_pricing.logs import Log
from studies.online_simulation.arrange import shifted
from studies.sleeping.bound import least_cycles
from studies.sleeping.experiment import ALWAYS_ON, Experiment
from studies.sleeping.result import Bound, Result
from studies.usage import usage_of

NODES = bundled_node_class("sketch")


def run(experiment: Experiment, log: Log) -> Result:
    """Replay the log's jobs under EASY, each submitted 0 to 60 s later than in the log by chance."""
    jobs = shifted(log.trace.jobs, np.random.default_rng([experiment.seed, experiment.replay]))
    machine = machine_of(log)
    fleet = Fleet(machine.nodes, machine.units_per_node, NODES, min(1.0, offered_load(jobs, machine.size)))
    capacity = make_capacity_policy(experiment.policy, fleet, CapacitySettings())
    power_w = np.full(len(jobs), NODES.running_w(1.0) / machine.units_per_node)
    schedule = replay_powered(jobs, power_w, machine, parse_policy("easy", SchedulingSettings()), capacity)
    usage = usage_of(jobs, power_w, schedule, machine)
    powered = PoweredUsage(usage, schedule.node_log, NODES)
    figures = sleep_figures(powered, jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=CapacitySettings().sla)
    bound = least_cycles(usage, machine) if experiment.policy == ALWAYS_ON else ()
    return _result(figures, schedule.start_s - jobs.submit_s, schedule.end_s - schedule.start_s, bound)


def machine_of(log: Log) -> PoweredMachine:
    """Return the log's machine as nodes of the class `sketch`."""
    return PoweredMachine(log.size, units_per_node(log), NODES)


def units_per_node(log: Log) -> int:
    """Return how many units make a node: as the header says, else what the sizes of all jobs are multiples of."""
    processors, nodes = log.trace.processors, log.trace.nodes
    if processors and nodes and processors > nodes and processors % nodes == 0:
        return processors // nodes
    return int(np.gcd.reduce(np.append(log.trace.jobs.size, log.size)))


def _result(figures: SleepFigures, wait_s: Int64, runtime_s: Int64, bound: Bound) -> Result:
    return Result(
        saved_pct=figures.idle_saved_pct,
        delay_s=figures.mean_boot_delay_s,
        delayed_pct=100 * figures.delayed_share,
        cycles=figures.power_cycles_per_node_day,
        wait_s=float(wait_s.mean()),
        slowdown=float(bounded_slowdown_by_delay(wait_s, runtime_s).mean()),
        bound=bound,
    )
