"""Runs one experiment: a pure function of the log, the setup and the seed."""

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from plugin.capacity.port import CapacityPolicy, Fleet
from power.capacity.registry import make_capacity_policy
from sim_backend.nodes.node_log import PoweredUsage, SleepFigures, sleep_figures
from sim_backend.policy import parse_policy
from sim_backend.powered_replay import PoweredMachine, replay_powered
from studies.dynamic_pricing.logs import Log
from studies.online_simulation.arrange import arranged, shifted
from studies.online_simulation.decide import deciding
from studies.online_simulation.experiment import Experiment, Setup
from studies.online_simulation.nodes import node_class_of
from studies.online_simulation.paper import SLA
from studies.online_simulation.result import ByWeek, Result, Weekly
from studies.online_simulation.weekly import weekly_active
from studies.usage import usage_of

DAYS_A_YEAR = 365
DIGITS = 5


def run(experiment: Experiment, log: Log) -> Result:
    """Replay the log's jobs, each submitted 0 to 60 s later than in the log by chance."""
    setup = experiment.setup
    jobs = shifted(arranged(log.trace.jobs, setup), np.random.default_rng([experiment.seed, experiment.replay]))
    machine = PoweredMachine(setup.size, 1, node_class_of(setup.nodes))
    policy = parse_policy("easy", SchedulingSettings(estimates=setup.estimates))
    power_w = np.full(len(jobs), machine.node_class.running_w(1.0))
    schedule = replay_powered(jobs, power_w, machine, policy, capacity_of(setup, machine, jobs))
    usage = usage_of(jobs, power_w, schedule, machine)
    powered = PoweredUsage(usage, schedule.node_log, machine.node_class)
    return _result(powered, jobs, sleep_figures(powered, jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=SLA))


def capacity_of(setup: Setup, machine: PoweredMachine, jobs: Jobs) -> CapacityPolicy:
    """Return the setup's capacity policy for the machine."""
    fleet = Fleet(machine.size, machine.units_per_node, machine.node_class)
    return deciding(make_capacity_policy(setup.capacity, fleet, CapacitySettings(sla=SLA)), setup, jobs, SLA)


def _result(powered: PoweredUsage, jobs: Jobs, figures: SleepFigures) -> Result:
    usage = powered.usage
    slowdown = bounded_slowdown_by_delay(usage.start_s - jobs.submit_s, usage.end_s - usage.start_s)
    active, utilization = weekly_active(usage, powered.node_log)
    by_week = map(_by_week, (figures.weekly_slowdown, figures.weekly_violations, utilization, active))
    return Result(
        slowdown=float(slowdown.mean()),
        violations=float((slowdown > SLA).mean()),
        utilization=figures.utilization_of_active,
        inactive=figures.inactive_share,
        cycles=figures.power_cycles_per_node_day * DAYS_A_YEAR,
        idle_saved=figures.idle_saved_pct / 100,
        weekly=Weekly(*by_week),
    )


def _by_week(values: Float64) -> ByWeek:
    return tuple(None if np.isnan(value) else round(value, DIGITS) for value in values.tolist())
