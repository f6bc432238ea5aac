"""One experiment on single sites: its case, the workload of a testbed, its result, and the run.

A measurement is a cell of the testbed tables: a workload on a testbed, replayed once under its default scheduler and
once under the energy-aware one. Workloads are batches of jobs, drawn until one has the required length and
utilization. A simulation replays the jobs of Table II under one scheduler and its energy-aware counterpart. `run` is a
pure function of the case and the seed.
"""

import math
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs, make_jobs
from offpeak.model.node_class import DepthPower, NodeClass, break_even_s
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import DEPTHS, coming_up
from offpeak.model.schedule_metrics import utilization
from offpeak.model.step_integrals import integrate_constant
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.nodes.node_log import PoweredUsage, node_energy_and_charge
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay, replay_powered
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak_studies.energy_carbon import paper
from offpeak_studies.logs import usage_of

OF_DEFAULT, AS_MEASURED = "of the default run", "as measured"
"""Readings of the utilization, "the percentage of time when cluster resources are stressed with jobs relative to the
total elapsed time": the default run's, which lasts as long as the table's; or the energy-aware run's, both lasting so.
"""
PAPER_WIDTHS, ANY_WIDTH = "paper", "any"


@dataclass(frozen=True)
class Measurement:
    """A workload on a testbed whose nodes sleep in one `way` ("both" is standby with the governor), at a utilization.

    `default`: the discipline of the default scheduler. `keeps`: nodes that the first waiting job will soon need stay
    awake; otherwise every idle node sleeps at once. `walltime_s`: the least time that jobs request, 0 for exactly their
    run time. `period_s`: between the passes of the default scheduler, 0 for a pass at each event.
    """

    testbed: str
    way: str
    load_pct: int
    default: str
    reading: str = OF_DEFAULT
    widths: str = PAPER_WIDTHS
    keeps: bool = True
    walltime_s: int = 0
    period_s: int = 0


@dataclass(frozen=True)
class Simulation:
    """One scheduler and its energy-aware counterpart on a cluster; jobs request `load` of the cluster (1: all)."""

    servers: int
    discipline: str
    load: float


@dataclass(frozen=True)
class SingleSiteExperiment:
    """A case with draws from the seed (`seed`, `replay`)."""

    case: Measurement | Simulation
    seed: int
    replay: int


@dataclass(frozen=True)
class MeasurementResult:
    """Means over the workloads of a replay; savings are against the default scheduler.

    `elapsed_ratio`: the elapsed time of the energy-aware run over that of the default run; `order_ratio`: the same if
    no node slept. `far_shorter`: the share of workloads whose order_ratio is at most 0.85. `busy_w`: the power of a
    node with a job. `default_share`: the share of node time in which the nodes of the default run had jobs. `wakes`: of
    all nodes.
    """

    saved_pct: float
    power_saved_pct: float
    elapsed_ratio: float
    order_ratio: float
    far_shorter: float
    busy_w: float
    default_share: float
    wakes: float


@dataclass(frozen=True)
class SimulationResult:
    """A scheduler and its energy-aware counterpart on the same jobs; `sleep_delay_s` is the mean over all jobs."""

    saved_pct: float
    utilization: float
    wait_s: float
    aware_wait_s: float
    sleep_delay_s: float


SingleSiteResult = MeasurementResult | SimulationResult


AWARE = "first-fit"
FEWEST_JOBS, MOST_JOBS = 2, 30
LONGEST_OVER_SHORTEST = 20.0
TOLERANCE = 0.01
"""How far the utilization and, relatively, the length may be from the required ones."""
MAY_COME = 0.03
"""How far the utilization may be at first: walltimes and passes do not stretch with the jobs."""


@dataclass(frozen=True)
class WorkloadMix:
    """The sizes and the run times of a workload's jobs, the latter relative to each other."""

    size: Int64
    length: Float64

    @property
    def fullest(self) -> float:
        """The most nodes that the mix can keep busy on average, in any order."""
        return float(np.dot(self.size, self.length) / self.length.max())

    def jobs(self, longest_s: float, walltime_s: int) -> Jobs:
        """Return the jobs, all submitted in second 0; the longest runs for `longest_s`."""
        runtime_s = np.maximum(np.rint(self.length / self.length.max() * longest_s), 1).astype(np.int64)
        return make_jobs(np.zeros_like(runtime_s), self.size, runtime_s, np.maximum(runtime_s, walltime_s))


@dataclass(frozen=True)
class BatchWorkload:
    """A batch of jobs and how long the default and the energy-aware scheduler take for it if no node sleeps [s]."""

    jobs: Jobs
    default_s: float
    aware_s: int


def discipline(name: str, period_s: int = 0) -> Policy:
    """Return the scheduling policy of that name, with a pass each period, or at each event if the period is 0."""
    return parse_policy(name, SchedulingSettings(period_s=period_s or None))


def draw_mix(testbed: paper.MeasuredCluster, widths: str, rng: Generator) -> WorkloadMix:
    """Draw 2 to 30 jobs whose run times differ up to twentyfold, of any size or as in the paper's federated test."""
    count = int(rng.integers(FEWEST_JOBS, MOST_JOBS, endpoint=True))
    widest = testbed.nodes if widths == ANY_WIDTH else paper.NARROW
    size = rng.integers(1, widest, count, endpoint=True)
    if widths != ANY_WIDTH:
        size = np.where(rng.random(count) < paper.WIDE_SHARE, testbed.wide, size)
    return WorkloadMix(size, np.exp(rng.uniform(0, np.log(LONGEST_OVER_SHORTEST), count)))


def draw_workload(measurement: Measurement, rng: Generator) -> BatchWorkload:
    """Return the first drawn workload with the utilization and the length of the table, as the measurement reads it."""
    testbed = paper.TESTBEDS[measurement.testbed]
    while True:
        workload = fitted(draw_mix(testbed, measurement.widths, rng), measurement)
        if workload is not None:
            return workload


def fitted(mix: WorkloadMix, measurement: Measurement) -> BatchWorkload | None:
    """Return the mix, stretched to the length of the measurement; None if its utilization differs."""
    testbed = paper.TESTBEDS[measurement.testbed]
    row, nodes, share = testbed.rows[measurement.way][measurement.load_pct], testbed.nodes, measurement.load_pct / 100
    default, aware = discipline(measurement.default, measurement.period_s), discipline(AWARE)
    measured = measurement.reading == AS_MEASURED
    reference, wanted_s = (aware, row.aware.elapsed_s) if measured else (default, row.default.elapsed_s)
    longest_s = wanted_s
    if mix.fullest / nodes < share - TOLERANCE:
        return None
    for away in (MAY_COME, TOLERANCE):
        jobs = mix.jobs(longest_s, measurement.walltime_s)
        took_s = elapsed_s(jobs, nodes, reference)
        if abs(node_s(jobs) / nodes / took_s - share) > away:
            return None
        longest_s *= wanted_s / took_s
    if abs(took_s - wanted_s) > TOLERANCE * wanted_s:
        return None
    return BatchWorkload(jobs, row.default.elapsed_s if measured else took_s, elapsed_s(jobs, nodes, aware))


def elapsed_s(jobs: Jobs, nodes: int, policy: Policy) -> int:
    """Return how long the batch takes if no node sleeps."""
    return int(replay(jobs, np.zeros(len(jobs)), machine_size=nodes, policy=policy).end_s.max())


def node_s(jobs: Jobs) -> float:
    """Return the jobs' node-seconds."""
    return float(np.dot(jobs.size, jobs.runtime_s))


BOTH = "both"


def node_class_of(testbed: str, way: str) -> NodeClass:
    """Return the testbed's nodes; "both" has the power of an empty Juggle in standby with the governor set."""
    node_class = bundled_node_class(testbed)
    if way != BOTH:
        return node_class
    both_w = paper.JUGGLE.rows[BOTH][0].aware.power_w / paper.JUGGLE.nodes
    deepest = node_class.depths[-1]
    return replace(node_class, depths=(*node_class.depths[:-1], replace(deepest, power_w=both_w)))


def depth_of(node_class: NodeClass, way: str) -> DepthPower:
    """Return the depth that the way to sleep uses."""
    name = _depth_name(way)
    return node_class.depths[0] if name == "powersave" else node_class.depths[-1]


def energy_aware(nodes: int, node_class: NodeClass, way: str, *, keeps: bool) -> CapacityPolicy:
    """Return the policy in which idle nodes sleep at once.

    `keeps`: nodes that the first waiting job is expected to need before sleep would pay stay awake.
    """
    ahead_s = math.ceil(break_even_s(node_class, depth_of(node_class, way).depth)) if keeps else 0
    settings = CapacitySettings(depths=(_depth_name(way),), wake_ahead_s=ahead_s)
    return make_capacity_policy("energy-aware", Fleet(nodes, 1, node_class), settings)


def _depth_name(way: str) -> str:
    return "standby" if way == BOTH else way


WORKLOADS = 10
"""Workloads of a replay: one alone varies too much, and the paper's figures are averages of "several iterations", too.
"""
FAR_SHORTER = 0.85


def measure(case: Measurement, rng: Generator) -> MeasurementResult:
    """Return the means over the workloads of a replay."""
    by_workload = [astuple(measured(case, draw_workload(case, rng))) for _ in range(WORKLOADS)]
    return MeasurementResult(*(float(mean) for mean in np.mean(by_workload, axis=0)))


def measured(case: Measurement, workload: BatchWorkload) -> MeasurementResult:
    """Return the result of one workload.

    The default run draws the average power of the table for its elapsed time. The part above the power of idle nodes is
    that of the jobs, the same for each node-second of a job.
    """
    testbed = paper.TESTBEDS[case.testbed]
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


def busy_node_w(row: paper.MeasuredPair, node_class: NodeClass, nodes: int, busy_nodes: float) -> float:
    """Return the power of each of so many nodes with a job at which the default run has the power of the table."""
    return node_class.idle_w + (row.default.power_w - nodes * node_class.idle_w) / busy_nodes


def energy_aware_run(
    jobs: Jobs, busy_w: float, nodes: int, node_class: NodeClass, case: Measurement
) -> tuple[Schedule, float]:
    """Return the energy-aware scheduler's run and its energy [J] until the last job ends, all nodes awake at first."""
    capacity = energy_aware(nodes, node_class, case.way, keeps=case.keeps)
    power_w = np.full(len(jobs), busy_w)
    machine = PoweredMachine(nodes, 1, node_class)
    schedule = replay_powered(jobs, power_w, machine, discipline(AWARE), capacity)
    return schedule, energy_j(jobs, power_w, schedule, machine)


def energy_j(jobs: Jobs, power_w: Float64, schedule: Schedule, machine: PoweredMachine) -> float:
    """Return the energy of the nodes from the first submission to the last end."""
    powered = PoweredUsage(usage_of(jobs, power_w, schedule, machine), schedule.node_log, machine.node_class)
    return node_energy_and_charge(integrate_constant(1.0), powered)[0].total


NODES = "dune"
"""The paper does not have the total power of its servers; those of Dune it measured and switched off."""


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
    normal_j, aware_j = (energy_j(jobs, power_w, run, machine) for run in (normal_run, aware_run))
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
    """Return the jobs and their power per node [W]; gaps are exponential, scaled to the load, from 0 on.

    A job has its nodes for itself and uses one, two or all four cores of each, at a load of its own.
    """
    size = rng.integers(1, paper.WIDEST, paper.JOBS, endpoint=True)
    runtime_s = rng.integers(*paper.RUNTIME_S, paper.JOBS, endpoint=True)
    used = (
        rng.choice(paper.JOB_CORES, paper.JOBS)
        / paper.SERVER_CORES
        * rng.uniform(*paper.JOB_LOAD_PCT, paper.JOBS)
        / 100
    )
    power_w = np.array([node_class.running_w(share) for share in used])
    after_s = np.append(0, np.cumsum(rng.exponential(1.0, paper.JOBS - 1)))
    span_s = float(np.dot(size, runtime_s)) / (case.servers * case.load)
    submit_s = np.rint(after_s * span_s / after_s[-1]).astype(np.int64)
    return make_jobs(submit_s, size, runtime_s, runtime_s), power_w


def _mean_wait_s(jobs: Jobs, run: Schedule) -> float:
    return float((run.start_s - jobs.submit_s).mean())


def run(experiment: SingleSiteExperiment) -> SingleSiteResult:
    """Return the result of the case in that replay."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    case = experiment.case
    return measure(case, rng) if isinstance(case, Measurement) else simulate(case, rng)
