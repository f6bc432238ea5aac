"""Runs one experiment: a pure function of the case and the seed.

A measurement replays a workload on a testbed, once under its default scheduler and once under the energy-aware
one. A simulation replays the jobs of Table II under one scheduler and its energy-aware counterpart.
"""

import math
from dataclasses import astuple, replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass, SleepDepth, break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import DEPTHS, coming_up
from offpeak.model.schedule_metrics import utilization
from offpeak.model.step_integrals import Usage, integrate_constant
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.port import CapacityPolicy, Fleet
from power.capacity.registry import make_capacity_policy
from sim_backend.nodes.node_log import PoweredUsage, node_energy_and_charge
from sim_backend.powered_replay import PoweredMachine, PoweredSchedule, replay_powered
from studies.energy_carbon.experiment import (
    Measurement,
    MeasurementResult,
    Simulation,
    SimulationResult,
    SingleSiteExperiment,
    SingleSiteResult,
)
from studies.energy_carbon.paper import (
    JOB_CORES,
    JOB_LOAD_PCT,
    JOBS,
    JUGGLE,
    RUNTIME_S,
    SERVER_CORES,
    TESTBEDS,
    WIDEST,
    MeasuredPair,
)
from studies.energy_carbon.workload import AWARE, BatchWorkload, batch, discipline, draw_workload, node_s

BOTH = "both"


def node_class_of(testbed: str, way: str) -> NodeClass:
    """Return the testbed's nodes; "both" is standby at what an empty Juggle drew in it with the governor set, too."""
    node_class = bundled_node_class(testbed)
    if way != BOTH:
        return node_class
    both_w = JUGGLE.rows[BOTH][0].aware.power_w / JUGGLE.nodes
    deepest = node_class.depths[-1]
    return replace(node_class, depths=(*node_class.depths[:-1], replace(deepest, power_w=both_w)))


def depth_of(node_class: NodeClass, way: str) -> SleepDepth:
    """Return the depth that the way to sleep uses."""
    name = _depth_name(way)
    return node_class.depths[0] if name == "powersave" else node_class.depths[-1]


def energy_aware(nodes: int, node_class: NodeClass, way: str, *, keeps: bool) -> CapacityPolicy:
    """Return the policy in which idle nodes sleep at once.

    `keeps`: but for those that the first waiting job is expected to need before it would have paid to sleep.
    """
    ahead_s = math.ceil(break_even_s(node_class, depth_of(node_class, way).depth)) if keeps else 0
    settings = CapacitySettings(depths=(_depth_name(way),), wake_ahead_s=ahead_s)
    return make_capacity_policy("energy-aware", Fleet(nodes, 1, node_class), settings)


def _depth_name(way: str) -> str:
    return "standby" if way == BOTH else way


WORKLOADS = 10
"""Workloads of a replay: one alone says little, and the paper's figures are averages of "several iterations", too."""
FAR_SHORTER = 0.85


def measure(case: Measurement, rng: Generator) -> MeasurementResult:
    """Return the means over the workloads of a replay."""
    each = [astuple(measured(case, draw_workload(case, rng))) for _ in range(WORKLOADS)]
    return MeasurementResult(*(float(mean) for mean in np.mean(each, axis=0)))


def measured(case: Measurement, workload: BatchWorkload) -> MeasurementResult:
    """Return what one workload comes to.

    The default scheduler draws the table's average power for as long as it takes; what this is above idle nodes is the
    jobs', the same for each node-second of a job.
    """
    testbed = TESTBEDS[case.testbed]
    row = testbed.rows[case.way][case.load_pct]
    node_class = node_class_of(case.testbed, case.way)
    busy_w = busy_node_w(row, node_class, testbed.nodes, node_s(workload.jobs) / workload.default_s)
    aware, aware_j = energy_aware_run(workload.jobs, busy_w, testbed.nodes, node_class, case)
    aware_s = int(aware.end_s.max())
    power_ratio = aware_j / aware_s / row.default.power_w
    order_ratio = workload.aware_s / workload.default_s
    return MeasurementResult(
        saved_pct=100 * (1 - power_ratio * aware_s / workload.default_s),
        power_saved_pct=100 * (1 - power_ratio),
        elapsed_ratio=aware_s / workload.default_s,
        order_ratio=order_ratio,
        far_shorter=float(order_ratio <= FAR_SHORTER),
        busy_w=busy_w,
        default_share=node_s(workload.jobs) / testbed.nodes / workload.default_s,
        wakes=float(np.isin(aware.node_log.state, [coming_up(depth) for depth in range(len(DEPTHS))]).sum()),
    )


def busy_node_w(row: MeasuredPair, node_class: NodeClass, nodes: int, busy_nodes: float) -> float:
    """Return the draw of a node with a job at which the default run, with so many of them, has the table's power."""
    return node_class.idle_w + (row.default.power_w - nodes * node_class.idle_w) / busy_nodes


def energy_aware_run(
    jobs: Jobs, busy_w: float, nodes: int, node_class: NodeClass, case: Measurement
) -> tuple[PoweredSchedule, float]:
    """Return the energy-aware scheduler's run and its energy [J] until the last job ends, all nodes awake at first."""
    capacity = energy_aware(nodes, node_class, case.way, keeps=case.keeps)
    power_w = np.full(len(jobs), busy_w)
    schedule = replay_powered(jobs, power_w, PoweredMachine(nodes, 1, node_class), discipline(AWARE), capacity)
    return schedule, energy_j(jobs, power_w, schedule, node_class)


def energy_j(jobs: Jobs, power_w: Float64, schedule: PoweredSchedule, node_class: NodeClass) -> float:
    """Return what the nodes used from the first submission to the last end."""
    log = schedule.node_log
    usage = Usage(
        size=jobs.size,
        node_power_w=power_w,
        start_s=schedule.start_s,
        end_s=schedule.end_s,
        machine_size=log.units,
        idle_w=node_class.idle_w,
        begin_s=int(jobs.submit_s[0]),
        until_s=int(schedule.end_s.max()),
    )
    return node_energy_and_charge(integrate_constant(1.0), PoweredUsage(usage, log, node_class))[0].total


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


def run(experiment: SingleSiteExperiment) -> SingleSiteResult:
    """Return what the case comes to in that replay."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    case = experiment.case
    return measure(case, rng) if isinstance(case, Measurement) else simulate(case, rng)
