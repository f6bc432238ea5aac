"""A workload on a testbed, once under its default scheduler and once under the energy-aware one."""

from dataclasses import astuple

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS, coming_up
from offpeak.model.step_integrals import Usage, integrate_constant
from sim_backend.nodes.node_log import PoweredUsage, node_energy_and_charge
from sim_backend.powered_replay import PoweredMachine, PoweredSchedule, replay_powered
from studies.energy_carbon.experiment import Measurement
from studies.energy_carbon.nodes import energy_aware, node_class_of
from studies.energy_carbon.paper import TESTBEDS, Row
from studies.energy_carbon.result import MeasurementResult
from studies.energy_carbon.workload import AWARE, Workload, discipline, draw_workload, node_s

WORKLOADS = 10
"""Workloads of a replay: one alone says little, and the paper's figures are averages of "several iterations", too."""
FAR_SHORTER = 0.85


def measure(case: Measurement, rng: Generator) -> MeasurementResult:
    """Return the means over the workloads of a replay."""
    each = [astuple(measured(case, draw_workload(case, rng))) for _ in range(WORKLOADS)]
    return MeasurementResult(*(float(mean) for mean in np.mean(each, axis=0)))


def measured(case: Measurement, workload: Workload) -> MeasurementResult:
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


def busy_node_w(row: Row, node_class: NodeClass, nodes: int, busy_nodes: float) -> float:
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
