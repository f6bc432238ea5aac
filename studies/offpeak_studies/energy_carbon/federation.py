"""The paper's federations and one experiment on them: a pure function of the case and the seed.

The simulated federation has three clusters: the jobs of Table II go where the selection sends them, one after
the other. The federated testbed runs 135 jobs on Juggle, Jufit and Dune, each charged as it was measured. The
paper gives an average walltime of 720 s, a tenth of the jobs that only Juggle can run (8 nodes), ranks of
LINPACK and the average power of each cluster. The rest is from Table IX's own node-seconds (nodes x time x
utilization over jobs): 1,957 of a narrow job on Juggle under round-robin, 57 to 98 on Jufit, 154 to 191 on Dune
agree with 8 cores for most of 720 s on Juggle, a tenth of that on Jufit and a quarter on Dune; 1,474 of a job
that runs on Juggle alone, under ECA, with 8 nodes for 184 s. A job comes each second: they are "submitted in
parallel". The paper's figures are Tables II, III and IX, and its text.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, J_PER_KWH
from offpeak.model.jobs import make_jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_integrals import Usage, energy_and_charge, integrate_constant
from offpeak.plugin.federation.cycle import GridRules
from offpeak.plugin.federation.jobs import Goal
from offpeak.plugin.federation.policies import grid_policy
from offpeak.plugin.federation.sites import Site, esc_g_per_kwh
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.nodes.node_log import PoweredUsage, node_energy_and_charge
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.energy_carbon.paper import WALLTIME_S, WIDE_SHARE
from offpeak_studies.energy_carbon.run import NODES, Simulation, discipline, draw_jobs, energy_aware
from offpeak_studies.simulated_grid.broker import Decider, LongestWaits, run_grid
from offpeak_studies.simulated_grid.grid import GridLog, SimulatedGrid, SimulatedSite, SiteNodes, Steady
from offpeak_studies.simulated_grid.sites import GridSchedule


@dataclass(frozen=True)
class PaperCluster:
    """A column of Table III; `mix` is in per cent of energy by source."""

    name: str
    nodes: int
    mix: Mapping[str, float]
    pue: float


CLUSTERS = (
    PaperCluster("cluster 1", 30, {"coal": 50, "hydro": 20, "nuclear": 30}, 1.5),
    PaperCluster("cluster 2", 40, {"coal": 80, "oil": 20}, 1.8),
    PaperCluster("cluster 3", 50, {"oil": 20, "hydro": 40, "nuclear": 40}, 1.3),
)

AWARE_SAVED_PCT = (22, 35)
"""Energy, energy-aware schedulers with round-robin against normal ones with round-robin: Figure 5."""
AWARE_CHOSEN_SAVED_PCT = (25, 38)
"""The same with FP or ECA."""
FASTEST_SAVED_PCT = (17, 30)
"""Energy, FP against round-robin with the same normal scheduler: Figure 6."""
CO2_SAVED_PCT = (37, 45)
"""CO2, ECA with energy-aware schedulers against round-robin with normal ones: Figure 12."""


@dataclass(frozen=True)
class TablePart:
    """The figures of Table IX for one cluster in one run."""

    energy_kj: float
    jobs: int
    elapsed_s: float
    power_w: float
    utilization_pct: int


@dataclass(frozen=True)
class TableColumn:
    """A column of Table IX: Juggle, Jufit and Dune, in this order, and the emissions of all [kg]."""

    juggle: TablePart
    jufit: TablePart
    dune: TablePart
    co2_kg: float

    @property
    def parts(self) -> tuple[TablePart, TablePart, TablePart]:
        """The parts of all three clusters."""
        return self.juggle, self.jufit, self.dune

    @property
    def energy_kj(self) -> float:
        """The energy of all three clusters."""
        return float(sum(part.energy_kj for part in self.parts))


TABLE_IX = {
    "ECA, 3600 s": TableColumn(
        TablePart(4668, 16, 2979, 1567, 66), TablePart(961, 57, 2940, 327, 65), TablePart(1442, 62, 3163, 456, 82), 1.42
    ),
    "ECA, 10800 s": TableColumn(
        TablePart(1916, 5, 1245, 1540, 56), TablePart(767, 25, 2536, 304, 49), TablePart(2163, 106, 4721, 458, 97), 0.86
    ),
    "FP": TableColumn(
        TablePart(3705, 11, 2434, 1522, 46),
        TablePart(1051, 61, 3213, 327, 93),
        TablePart(1426, 63, 3211, 444, 88),
        1.31,
    ),
    "RR": TableColumn(
        TablePart(12893, 43, 8181, 1576, 81),
        TablePart(962, 45, 2838, 339, 45),
        TablePart(1029, 47, 2839, 430, 79),
        3.62,
    ),
}
LATEST_S = {"ECA, 3600 s": 3600, "ECA, 10800 s": 10_800, "FP": None, "RR": None}


@dataclass(frozen=True)
class FederatedTestbed:
    """A cluster of the federated testbed: nodes, cores and highest draw of one, PUE, CUE [kg/kWh], LINPACK's rank."""

    name: str
    nodes: int
    cores: int
    node_w: float
    pue: float
    cue: float
    rank: int

    __test__ = False  # pytest takes a class of this name for one of its own


TESTBEDS = (
    FederatedTestbed(name="juggle", nodes=12, cores=4, node_w=230.0, pue=1.4, cue=0.8, rank=1),
    FederatedTestbed(name="jufit", nodes=2, cores=12, node_w=232.0, pue=1.4, cue=0.8, rank=10),
    FederatedTestbed(name="dune", nodes=4, cores=8, node_w=170.0, pue=1.2, cue=0.43, rank=4),
)
TESTBED_JOBS = 135


@dataclass(frozen=True)
class SelectionCase:
    """A scheduler on all three clusters, idle nodes `asleep` or not, a selection of clusters, and the load.

    `load`: the share of all 120 nodes that jobs request until the last one is submitted. `queue_limit`: the jobs in a
    queue beyond which ECA does not choose a cluster.
    """

    discipline: str
    asleep: bool
    selection: str
    load: float
    queue_limit: int


@dataclass(frozen=True)
class MeasuredCase:
    """A column of Table IX, by its name."""

    column: str


FederationCase = SelectionCase | MeasuredCase


@dataclass(frozen=True)
class FederationExperiment:
    """A case with draws from the seed (`seed`, `replay`)."""

    case: FederationCase
    seed: int
    replay: int


@dataclass(frozen=True)
class FederationResult:
    """All clusters together, and the jobs and the energy of each; times but `duration_h` are means over jobs.

    Energy is that of the computers, without cooling, until the last job of all clusters has ended (on the testbed:
    until the last job of the cluster has ended).
    """

    energy_kwh: float
    co2_kg: float
    wait_h: float
    duration_h: float
    jobs: tuple[int, ...]
    site_kwh: tuple[float, ...]


ALL_NODES = sum(cluster.nodes for cluster in CLUSTERS)


def simulate(case: SelectionCase, rng: Generator) -> FederationResult:
    """Return the result of the case with jobs drawn from that generator."""
    node_class = bundled_node_class(NODES)
    grid = grid_of(case, node_class, rng)
    decider = Decider(
        grid_policy(case.selection),
        GridRules(queue_limit=case.queue_limit),
        LongestWaits(),
        Steady((0.0,) * len(CLUSTERS), [esc_g_per_kwh(cluster.mix) for cluster in CLUSTERS]),
    )
    schedule = run_grid(grid, decider)
    return result_of(grid, schedule, node_class)


def grid_of(case: SelectionCase, node_class: NodeClass, rng: Generator) -> SimulatedGrid:
    """Return the clusters and the jobs, all submitted to the broker; cluster 1 is the home of all."""
    jobs, power_w = draw_jobs(Simulation(ALL_NODES, case.discipline, case.load), node_class, rng)
    count = len(jobs)
    unit_w = float(power_w.mean())
    log = GridLog(jobs, np.zeros(count, np.int64), np.ones(count, np.bool_), np.zeros(count), power_w / unit_w)
    return SimulatedGrid(tuple(_site(cluster, case, node_class, unit_w) for cluster in CLUSTERS), log)


def _site(cluster: PaperCluster, case: SelectionCase, node_class: NodeClass, unit_w: float) -> SimulatedSite:
    machine = PoweredMachine(cluster.nodes, 1, node_class)
    asleep = SiteNodes(machine, energy_aware(cluster.nodes, node_class, "off", keeps=False))
    esc = esc_g_per_kwh(cluster.mix)
    return SimulatedSite(
        Site(cluster.name, cluster.nodes, unit_w, pue=cluster.pue, esc_g_per_kwh=esc),
        discipline(case.discipline),
        integrate_constant(0.0),
        integrate_constant(esc),
        asleep if case.asleep else None,
    )


def result_of(grid: SimulatedGrid, schedule: GridSchedule, node_class: NodeClass) -> FederationResult:
    """Return the result; every cluster is charged until the last job of all clusters has ended."""
    submit_s = grid.log.jobs.submit_s
    until_s = int(schedule.end_s.max())
    energy_j = np.array([_energy_j(grid, schedule, site, node_class, until_s) for site in range(len(grid.sites))])
    cue = np.array([site.site.cue_g_per_kwh or 0.0 for site in grid.sites])
    site_kwh = energy_j / J_PER_KWH
    return FederationResult(
        energy_kwh=float(site_kwh.sum()),
        co2_kg=float(site_kwh @ cue) / 1000,
        wait_h=float((schedule.start_s - submit_s).mean()) / HOUR_S,
        duration_h=(until_s - int(submit_s[0])) / HOUR_S,
        jobs=tuple(np.bincount(schedule.site, minlength=len(grid.sites)).tolist()),
        site_kwh=tuple(site_kwh.tolist()),
    )


def _energy_j(grid: SimulatedGrid, schedule: GridSchedule, site: int, node_class: NodeClass, until_s: int) -> float:
    job: Int64 = np.flatnonzero(schedule.site == site)
    power_w: Float64 = grid.sites[site].site.unit_w * grid.log.power_factor[job]
    usage = Usage(
        size=grid.log.jobs.size[job],
        node_power_w=power_w,
        start_s=schedule.start_s[job],
        end_s=schedule.end_s[job],
        machine_size=grid.sites[site].site.units,
        idle_w=node_class.idle_w,
        begin_s=int(grid.log.jobs.submit_s[0]),
        until_s=until_s,
    )
    node_log = schedule.node_log[site]
    if node_log is None:
        return energy_and_charge(integrate_constant(1.0), usage)[0].total
    return node_energy_and_charge(integrate_constant(1.0), PoweredUsage(usage, node_log, node_class))[0].total


NARROW_CORES, WIDE_CORES = 8, 32
NARROW_S, WIDE_S = (648, 720), (150, 245)
"""Run times on Juggle are drawn between the two."""
POLICIES = {"ECA, 3600 s": "eca-sla", "ECA, 10800 s": "eca-sla", "FP": "fastest", "RR": "round-robin"}
G_PER_KG = 1000


def measure(case: MeasuredCase, rng: Generator) -> FederationResult:
    """Return the result of a column of Table IX."""
    return _testbed_result(*on_testbeds(TESTBEDS, POLICIES[case.column], Goal.CO2, log_of(LATEST_S[case.column], rng)))


def on_testbeds(
    testbeds: tuple[FederatedTestbed, ...], policy: str, goal: Goal, log: GridLog
) -> tuple[SimulatedGrid, GridSchedule]:
    """Return the testbeds with that workload, and the schedule of a policy for that goal."""
    grid = SimulatedGrid(tuple(map(_testbed_site, testbeds)), log)
    electricity = Steady((0.0,) * len(testbeds), [G_PER_KG * testbed.cue / testbed.pue for testbed in testbeds])
    return grid, run_grid(grid, Decider(grid_policy(policy), GridRules(goal=goal), LongestWaits(), electricity))


def log_of(latest_s: int | None, rng: Generator) -> GridLog:
    """Draw the workload; each job must end within `latest_s` after its submission."""
    submit_s = np.arange(TESTBED_JOBS)
    wide = rng.permutation(submit_s < WIDE_SHARE * TESTBED_JOBS)
    size = np.where(wide, WIDE_CORES, NARROW_CORES)
    runtime_s = np.where(wide, rng.integers(*WIDE_S, TESTBED_JOBS), rng.integers(*NARROW_S, TESTBED_JOBS))
    estimate_s = np.where(wide, WIDE_S[1], WALLTIME_S)
    everywhere = np.ones(TESTBED_JOBS)
    return GridLog(
        make_jobs(submit_s, size, runtime_s, estimate_s),
        np.zeros(TESTBED_JOBS, np.int64),
        everywhere.astype(np.bool_),
        np.zeros(TESTBED_JOBS),
        everywhere,
        None if latest_s is None else submit_s + latest_s,
    )


def _testbed_site(testbed: FederatedTestbed) -> SimulatedSite:
    nothing = integrate_constant(0.0)
    site = Site(
        testbed.name,
        testbed.nodes,
        testbed.node_w,
        cores_per_unit=testbed.cores,
        core_gflops=float(testbed.rank),
        pue=testbed.pue,
        largest_job_cores=WIDE_CORES if testbed.rank == 1 else NARROW_CORES,
    )
    return SimulatedSite(site, parse_policy("first-fit", SchedulingSettings()), nothing, nothing)


def mean_power_w(number: int) -> float:
    """Return the mean of a cluster's powers in Table IX, which hardly depend on the utilization."""
    return float(np.mean([column.parts[number].power_w for column in TABLE_IX.values()]))


def _testbed_result(grid: SimulatedGrid, schedule: GridSchedule) -> FederationResult:
    jobs, elapsed_s = _by_site(schedule)
    site_kwh = [elapsed_s[site] * mean_power_w(site) / J_PER_KWH for site in range(len(TESTBEDS))]
    submit_s = grid.log.jobs.submit_s
    return FederationResult(
        energy_kwh=sum(site_kwh),
        co2_kg=sum(testbed.cue * kwh for testbed, kwh in zip(TESTBEDS, site_kwh, strict=True)),
        wait_h=float((schedule.start_s - submit_s).mean()) / HOUR_S,
        duration_h=max(elapsed_s) / HOUR_S,
        jobs=tuple(jobs),
        site_kwh=tuple(site_kwh),
    )


def _by_site(schedule: GridSchedule) -> tuple[list[int], list[int]]:
    """Return for each cluster its jobs, and the time from its first submission to its last end [s]: eq. (9)."""
    jobs, elapsed_s = [], []
    for site in range(len(TESTBEDS)):
        here: Int64 = np.flatnonzero(schedule.site == site)
        jobs.append(len(here))
        elapsed_s.append(int(schedule.end_s[here].max() - schedule.queued_s[here].min()) if len(here) else 0)
    return jobs, elapsed_s


def run(experiment: FederationExperiment) -> FederationResult:
    """Return the result of the case in that replay; the jobs of all cases of a replay differ only in their arrivals."""
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    case = experiment.case
    return measure(case, rng) if isinstance(case, MeasuredCase) else simulate(case, rng)
