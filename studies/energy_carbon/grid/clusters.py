"""The three simulated clusters: the jobs of Table II go where the selection sends them, one after the other."""

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_integrals import J_PER_KWH, Usage, energy_and_charge, integrate_constant
from plugin.federation.cycle import GridRules
from plugin.federation.electricity import esc_g_per_kwh
from plugin.federation.policies import grid_policy
from plugin.federation.sites import Site
from sim_backend.grid.broker import Decider, run_grid
from sim_backend.grid.electricity import Steady
from sim_backend.grid.grid import GridLog, SimulatedGrid, SimulatedSite, SleepingNodes
from sim_backend.grid.sites import GridSchedule
from sim_backend.grid.waits import LongestWaits
from sim_backend.nodes.node_log import PoweredUsage, node_energy_and_charge
from sim_backend.powered_replay import PoweredMachine
from studies.energy_carbon.experiment import Simulation
from studies.energy_carbon.grid.experiment import Choice
from studies.energy_carbon.grid.paper import CLUSTERS, Cluster
from studies.energy_carbon.grid.result import Result
from studies.energy_carbon.nodes import energy_aware
from studies.energy_carbon.simulate import NODES, draw_jobs
from studies.energy_carbon.workload import discipline

HOUR_S = 3600
ALL_NODES = sum(cluster.nodes for cluster in CLUSTERS)


def simulate(case: Choice, rng: Generator) -> Result:
    """Return what the case comes to with jobs drawn by that chance."""
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


def grid_of(case: Choice, node_class: NodeClass, rng: Generator) -> SimulatedGrid:
    """Return the clusters and the jobs, all submitted to the broker, with cluster 1 for a home."""
    jobs, power_w = draw_jobs(Simulation(ALL_NODES, case.discipline, case.load), node_class, rng)
    count = len(jobs)
    unit_w = float(power_w.mean())
    log = GridLog(
        jobs,
        np.zeros(count, np.int64),
        np.ones(count, np.bool_),
        np.zeros(count),
        power_w / unit_w,
    )
    return SimulatedGrid(tuple(_site(each, case, node_class, unit_w) for each in CLUSTERS), log)


def _site(cluster: Cluster, case: Choice, node_class: NodeClass, unit_w: float) -> SimulatedSite:
    machine = PoweredMachine(cluster.nodes, 1, node_class)
    asleep = SleepingNodes(machine, energy_aware(cluster.nodes, node_class, "off", keeps=False))
    esc = esc_g_per_kwh(cluster.mix)
    return SimulatedSite(
        Site(cluster.name, cluster.nodes, unit_w, pue=cluster.pue, esc_g_per_kwh=esc),
        discipline(case.discipline),
        integrate_constant(0.0),
        integrate_constant(esc),
        asleep if case.asleep else None,
    )


def result_of(grid: SimulatedGrid, schedule: GridSchedule, node_class: NodeClass) -> Result:
    """Return the figures; every cluster is charged until the last job of all has ended."""
    submit_s = grid.log.jobs.submit_s
    until_s = int(schedule.end_s.max())
    energy_j = np.array([_energy_j(grid, schedule, site, node_class, until_s) for site in range(len(grid.sites))])
    cue = np.array([each.site.cue_g_per_kwh or 0.0 for each in grid.sites])
    site_kwh = energy_j / J_PER_KWH
    return Result(
        energy_kwh=float(site_kwh.sum()),
        co2_kg=float(site_kwh @ cue) / 1000,
        wait_h=float((schedule.start_s - submit_s).mean()) / HOUR_S,
        turnaround_h=float((schedule.end_s - submit_s).mean()) / HOUR_S,
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
