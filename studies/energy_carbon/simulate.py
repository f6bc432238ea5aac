"""One scheduler and its energy-aware counterpart on the jobs of Table II."""

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.schedule_metrics import utilization
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import Fleet
from power.capacity.registry import make_capacity_policy
from sim_backend.powered_replay import PoweredMachine, PoweredSchedule, replay_powered
from studies.energy_carbon.experiment import Simulation
from studies.energy_carbon.measure import energy_j
from studies.energy_carbon.nodes import energy_aware
from studies.energy_carbon.paper import JOB_CORES, JOB_LOAD_PCT, JOBS, RUNTIME_S, SERVER_CORES, WIDEST
from studies.energy_carbon.result import SimulationResult
from studies.energy_carbon.workload import batch, discipline

NODES = "dune"
"""The paper's servers have no total draw; Dune's are those that it measured and switched off."""


def simulate(case: Simulation, rng: Generator) -> SimulationResult:
    """Replay the same jobs with all nodes awake and with idle nodes off, each charged until its own last job ends."""
    node_class = bundled_node_class(NODES)
    jobs, power_w = draw_jobs(case, node_class, rng)
    always_on = make_capacity_policy("always-on", Fleet(case.servers, 1, node_class), CapacitySettings())
    aware = energy_aware(case.servers, node_class, "off", keeps=False)
    machine = PoweredMachine(case.servers, 1, node_class)
    normal_run, aware_run = (
        replay_powered(jobs, power_w, machine, discipline(case.discipline), capacity) for capacity in (always_on, aware)
    )
    normal_j, aware_j = (energy_j(jobs, power_w, run, node_class) for run in (normal_run, aware_run))
    return SimulationResult(
        saved_pct=100 * (1 - aware_j / normal_j),
        utilization=utilization(
            jobs.size, jobs.runtime_s, machine_size=case.servers, period_s=int(normal_run.end_s.max())
        ),
        wait_s=_mean_wait_s(jobs, normal_run),
        aware_wait_s=_mean_wait_s(jobs, aware_run),
        sleep_delay_s=float(aware_run.sleep_delay_s.mean()),
    )


def draw_jobs(case: Simulation, node_class: NodeClass, rng: Generator) -> tuple[Jobs, Float64]:
    """Return the jobs and their draw per node [W]; gaps are exponential, scaled to the load, the first job comes at 0.

    A job uses one, two or all four cores of each of its nodes, at a load of its own, and has its nodes for itself.
    """
    size = rng.integers(1, WIDEST, JOBS, endpoint=True)
    runtime_s = rng.integers(*RUNTIME_S, JOBS, endpoint=True)
    used = rng.choice(JOB_CORES, JOBS) / SERVER_CORES * rng.uniform(*JOB_LOAD_PCT, JOBS) / 100
    power_w = np.array([node_class.running_w(share) for share in used])
    after_s = np.append(0, np.cumsum(rng.exponential(1.0, JOBS - 1)))
    span_s = float(np.dot(size, runtime_s)) / (case.servers * case.load)
    submit_s = np.rint(after_s * span_s / after_s[-1]).astype(np.int64)
    return batch(submit_s, size, runtime_s, runtime_s), power_w


def _mean_wait_s(jobs: Jobs, run: PoweredSchedule) -> float:
    return float((run.start_s - jobs.submit_s).mean())
