"""One experiment: a rule that puts nodes to sleep, over the range of its parameter, its result, and the run.

The run is a pure function of the log, the policy and the seed. The bound is the lowest number of power cycles for an
energy with a known future and unmoved jobs. A node that sleeps through a gap costs one cycle, however long the gap is,
so the gaps that save most come first. No other assignment of jobs to nodes needs fewer: sort the nodes of any run at
each instant from active to asleep. Whenever a node falls asleep the lowest active level does, so cycles are those of
the levels, and each level sleeps only in its own gaps (sim_backend/nodes/bounds.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.step_integrals import Usage
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.nodes.bounds import gaps_of, saved_asleep, sleep_terms
from offpeak.sim_backend.nodes.node_log import PoweredUsage, SleepFigures, sleep_figures
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.logs import StudyLog, offered_load, shift_submissions, usage_of

ALWAYS_ON = "always-on"
TIMEOUT, POOL, FORECAST, LATE, OLS = "time-out", "green pool", "forecast", "forecast-late", "ols:1h"

FAMILIES: Mapping[str, tuple[str, ...]] = {
    TIMEOUT: tuple(f"timeout:{idle}" for idle in ("5min", "10min", "1000s", "30min", "1h", "2h")),
    POOL: tuple(f"green-pool:{share}" for share in ("1%", "2%", "5%", "10%", "20%")),
    FORECAST: tuple(f"forecast:{worth}" for worth in ("20min", "40min", "1h", "90min", "3h")),
    LATE: tuple(f"forecast-late:{worth}" for worth in ("20min", "40min", "1h", "90min", "3h")),
    OLS: tuple(f"ols:1h:{sla}" for sla in (5, 20, 50, 200)),
}
"""Policies with one parameter, in the order of its values."""

AT_ONCE, BREAK_EVEN, TWO_LEVEL = "energy-aware", "break-even", "two-level"
SINGLE = (AT_ONCE, BREAK_EVEN, TWO_LEVEL)
"""Policies without a parameter: two-level finds its own level."""

EQUAL_ENERGY_PCT: Mapping[str, int] = {"KTH-SP2": 80, "CTC-SP2": 75, "SDSC-BLUE": 78}
"""The share of the idle energy at which families are compared, by how a log's name begins; fixed before any run."""

POLICIES = (ALWAYS_ON, *(policy for family in FAMILIES.values() for policy in family), *SINGLE)


@dataclass(frozen=True)
class SleepingExperiment:
    """One replay of a log under a policy, with submit times shifted by the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    policy: str


Bound = tuple[float | None, ...]
"""The fewest cycles per node and day that save 0, 1, ... 99 % of the idle energy, None for impossible savings."""


@dataclass(frozen=True)
class SleepingResult:
    """The result of one replay; `slowdown` is the mean of 1 + wait / max(10 s, run).

    `saved_pct` is the share of the idle nodes' energy that sleep saved, `delay_s` the mean over all jobs of the time
    for which only sleeping nodes kept them from running, `cycles` per node and day. `bound` is for the schedule on
    nodes that are always on, and empty under other policies.
    """

    saved_pct: float
    delay_s: float
    delayed_pct: float
    cycles: float
    wait_s: float
    slowdown: float
    bound: Bound


SHARES_PCT = range(100)


def least_cycles(usage: Usage, machine: PoweredMachine) -> tuple[float | None, ...]:
    """Return the fewest cycles per node and day that save 0, 1, ... 99 % of the idle energy; None beyond.

    `usage` is a schedule on nodes that are always on; its jobs are not moved.
    """
    gaps = gaps_of(usage, machine.units_per_node)
    terms = sleep_terms(machine.node_class, machine.node_class.idle_w)
    saved_j = saved_asleep(usage, gaps, terms)
    idle_j = terms.idle_w * float((gaps.nodes * (gaps.until_s - gaps.from_s)).sum())
    cycles = fewest(saved_j, gaps.nodes, np.array(SHARES_PCT) / 100 * idle_j)
    node_days = machine.nodes * (usage.until_s - usage.begin_s) / DAY_S
    return tuple(None if np.isnan(count) else count / node_days for count in cycles.tolist())


def fewest(saved_j: Float64, nodes: Int64, wanted_j: Float64) -> Float64:
    """Return how many sleeps save at least each of the `wanted_j`: float64[k], NaN if all sleeps together save less.

    Each of the `nodes[i]` saves `saved_j[i]` by one sleep.
    """
    order = np.argsort(-saved_j, kind="stable")[: np.count_nonzero(saved_j > 0)]
    each_j, nodes = np.append(saved_j[order], np.nan), nodes[order]
    total_j = np.concatenate([[0.0], np.cumsum(saved_j[order] * nodes)])
    sleeps = np.concatenate([[0], np.cumsum(nodes)])
    # The first kind of gap that is not needed as a whole; behind the last there is none.
    at = np.searchsorted(total_j[1:], wanted_j)
    missing_j = wanted_j - total_j[at]
    return sleeps[at] + np.where(missing_j > 0, np.ceil(missing_j / each_j[at]), 0)


NODES = bundled_node_class("sketch")


def run(experiment: SleepingExperiment, log: StudyLog) -> SleepingResult:
    """Replay the log's jobs under EASY, each submitted 0 to 60 s later than in the log, at random.

    A what-if plans with the users' estimates.
    """
    jobs = shift_submissions(log.trace.jobs, np.random.default_rng([experiment.seed, experiment.replay]))
    machine = machine_of(log)
    fleet = Fleet(machine.nodes, machine.units_per_node, NODES, min(1.0, offered_load(jobs, machine.size)))
    capacity = replace(make_capacity_policy(experiment.policy, fleet, CapacitySettings()), by_limits=True)
    power_w = np.full(len(jobs), NODES.running_w(1.0) / machine.units_per_node)
    schedule = replay_powered(jobs, power_w, machine, parse_policy("easy", SchedulingSettings()), capacity)
    usage = usage_of(jobs, power_w, schedule, machine)
    powered = PoweredUsage(usage, schedule.node_log, NODES)
    figures = sleep_figures(
        (powered,), powered.usage, jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=CapacitySettings().sla
    )
    bound = least_cycles(usage, machine) if experiment.policy == ALWAYS_ON else ()
    return _result(figures, schedule.start_s - jobs.submit_s, schedule.end_s - schedule.start_s, bound)


def machine_of(log: StudyLog) -> PoweredMachine:
    """Return the log's machine as nodes of the class `sketch`."""
    return PoweredMachine(log.size, units_per_node(log), NODES)


def units_per_node(log: StudyLog) -> int:
    """Return the units of a node: those of the header, else the greatest common divisor of all sizes."""
    processors, nodes = log.trace.processors, log.trace.nodes
    if processors and nodes and processors > nodes and processors % nodes == 0:
        return processors // nodes
    return int(np.gcd.reduce(np.append(log.trace.jobs.size, log.size)))


def _result(figures: SleepFigures, wait_s: Int64, runtime_s: Int64, bound: Bound) -> SleepingResult:
    return SleepingResult(
        saved_pct=figures.idle_saved_pct,
        delay_s=figures.mean_boot_delay_s,
        delayed_pct=100 * figures.delayed_share,
        cycles=figures.power_cycles_per_node_day,
        wait_s=float(wait_s.mean()),
        slowdown=float(bounded_slowdown_by_delay(wait_s, runtime_s).mean()),
        bound=bound,
    )
