"""One experiment: the number of awake processors, the knowledge of run times, the result, and the run.

The paper has plots instead of numbers, so its sentences about its logs are compared with the results. OLS has variants:
it knows other run times than the scheduler, or judges only the queued jobs. Utilization and active processors are also
given week by week. `run` is a pure function of the log, the setup and the seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass, Transition
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE
from offpeak.model.schedule_metrics import bounded_slowdown_by_delay
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_integrals import Usage, integrals, integrate_steps
from offpeak.plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet, TargetFunction
from offpeak.power.capacity.online_simulation import list_offers
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.power.whatif import WhatIfPlan, simulate_units
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.nodes.node_log import NodeLog, PoweredUsage, SleepFigures, sleep_figures
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak_studies.logs import StudyLog, shift_submissions, usage_of

SLA = 200.0
"""S, the bound on the mean slowdown under OLS."""


@dataclass(frozen=True)
class OnlinePaperLog:
    """A log of the paper (section 2 and table 1), and the beginning of the name of ours.

    `size` is U and `low` is L, in processors. `underused`: the paper compares no slowdowns on it.
    """

    name: str
    begins: str
    jobs: int
    size: int
    low: int
    underused: bool = False


PAPER_LOGS = (
    OnlinePaperLog("CTC", "CTC-SP2", 77_222, 512, 308, underused=True),
    OnlinePaperLog("KTH", "KTH-SP2", 28_490, 100, 75),
    OnlinePaperLog("SDSC-SP2", "SDSC-SP2", 59_725, 128, 110),
    OnlinePaperLog("Blue Horizon", "SDSC-BLUE", 243_314, 1152, 922),
)

ALWAYS_ON = "always-on"
OLS, DAILY, HOURLY = "ols:7d", "ols:1d", "ols:1h"
AS_SCHEDULER, AS_AGENT = "as the scheduler", "as the agent"
ALL_JOBS, QUEUED_JOBS = "all jobs", "queued jobs"
INSTANT, SERVER = "instant", "server"


@dataclass(frozen=True)
class OnlineSetup:
    """How a log is replayed under EASY. The defaults are the paper's.

    `size`: processors, wider jobs are left out. `capacity`: a policy of offpeak.power.capacity.registry. `estimates`:
    what the scheduler knows of run times: exact, user or predicted. `what_if`: what OLS knows, if it differs: exact,
    user or the agent's prediction. `judged`: the jobs whose mean slowdown OLS bounds. `nodes`: transitions that take no
    time, or of the bundled class `server`. `first_day`: the days of the log before it are left out, and weeks count
    from it on.
    """

    size: int
    capacity: str = OLS
    estimates: str = "exact"
    what_if: str = AS_SCHEDULER
    judged: str = ALL_JOBS
    nodes: str = INSTANT
    first_day: int = 0


@dataclass(frozen=True)
class OnlineExperiment:
    """One replay of a setup on a log, with submit times shifted by the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    setup: OnlineSetup


ByWeek = tuple[float | None, ...]
"""A figure of each week from the first submission on; None for a week without any."""


@dataclass(frozen=True)
class Weekly:
    """By week of their end the jobs' mean slowdown and the share of them above the SLA; utilization of the active
    processors; and how many were active on average.
    """

    slowdown: ByWeek
    violations: ByWeek
    utilization: ByWeek
    active: ByWeek


@dataclass(frozen=True)
class OnlineResult:
    """Measures of a replay from the first submission to the last end; shares from 0 to 1.

    `slowdown` is the jobs' mean of 1 + wait / max(10 s, run), `violations` the share of jobs above the SLA,
    `utilization` that of active processors, `inactive` the share of processor time that was not active, `cycles` how
    often a node fell asleep, per node and year, and `idle_saved` the share of the idle energy that sleep saved.
    """

    slowdown: float
    violations: float
    utilization: float
    inactive: float
    cycles: float
    idle_saved: float
    weekly: Weekly


def arranged(jobs: Jobs, setup: OnlineSetup) -> Jobs:
    """Return the jobs that are replayed."""
    after_s = jobs.submit_s - jobs.submit_s[0]
    return jobs.take((jobs.size <= setup.size) & (after_s >= setup.first_day * DAY_S))


NO_TIME = Transition(0, 0.0, 0.0)


def node_class_of(nodes: str) -> NodeClass:
    """Return the class that a setup names."""
    server = bundled_node_class(SERVER)
    at_once = tuple(replace(depth, enter=NO_TIME, leave=NO_TIME) for depth in server.depths)
    return replace(server, name=INSTANT, depths=at_once) if nodes == INSTANT else server


def week_edges_s(begin_s: int, until_s: int) -> Int64:
    """Return the seconds at which weeks begin, and the end of the period, which ends the last week."""
    weeks = -(-(until_s - begin_s) // WEEK_S)
    return np.minimum(begin_s + WEEK_S * np.arange(weeks + 1), until_s)


def weekly_active(usage: Usage, log: NodeLog) -> tuple[Float64, Float64]:
    """Return by week the mean number of active units, and the share of their time in which they ran jobs."""
    edges_s = week_edges_s(usage.begin_s, usage.until_s)
    counts = log.counts(usage.begin_s)
    active_s = _integral(edges_s, counts.at_s, (counts.nodes[:, ACTIVE] * log.units_per_node).astype(np.float64))
    busy_s = _integral(edges_s, *_busy(usage))
    share = np.divide(busy_s, active_s, out=np.zeros_like(busy_s), where=active_s > 0)
    return active_s / np.diff(edges_s), share


def _busy(usage: Usage) -> tuple[Int64, Float64]:
    """Return the instants of change, and the number of units that ran jobs from each on."""
    moments_s = np.concatenate([[usage.begin_s], usage.start_s, usage.end_s])
    change = np.concatenate([[0], usage.size, -usage.size])
    at_s, which = np.unique(moments_s, return_inverse=True)
    return at_s, np.cumsum(np.bincount(which, weights=change)).astype(np.float64)


def _integral(edges_s: Int64, at_s: Int64, value: Float64) -> Float64:
    """Return the integrals of `value[i]`, which holds from `at_s[i]` on, between neighbours of `edges_s`."""
    return integrals(integrate_steps(at_s, value), edges_s[:-1], edges_s[1:])


JobTimes = tuple[int, int, int]
"""Submit time [s], size and estimate [s]: how a snapshot's job is found again."""


@dataclass(frozen=True)
class KnowsOtherwise:
    """Gives `decide` other run times [s] than the scheduler uses.

    Jobs of the same submit time, size and estimate are not distinguished.
    """

    decide: TargetFunction
    runtime_s: Mapping[JobTimes, int]

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the targets of `decide` for the snapshot with these run times."""
        running, queued = snapshot.running, snapshot.queued
        expected_s = self._runtime_s(running.submit_s, running.size, running.expected_end_s - running.start_s)
        known = replace(
            snapshot,
            running=replace(running, expected_end_s=running.start_s + expected_s),
            queued=replace(queued, estimate_s=self._runtime_s(queued.submit_s, queued.size, queued.estimate_s)),
        )
        return self.decide(known)

    def _runtime_s(self, *columns: Int64) -> Int64:
        jobs = zip(*(column.tolist() for column in columns), strict=True)
        return np.array([self.runtime_s[job] for job in jobs], dtype=np.int64)


@dataclass(frozen=True)
class JudgesQueued:
    """OLS that bounds the mean slowdown of the queued jobs alone: running jobs, which waited little, do not count."""

    sla: float

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the first number of nodes tried that keeps the SLA, else all."""
        running = len(snapshot.running.size)
        tried = list_offers(snapshot)
        kept = (
            units for units in tried if self._slowdown(snapshot, simulate_units(snapshot, units), running) <= self.sla
        )
        return CapacityTargets(next(kept, tried[-1]) // snapshot.units_per_node)

    def _slowdown(self, snapshot: Snapshot, plan: WhatIfPlan, running: int) -> float:
        if not len(snapshot.queued.size):
            return 1.0
        start_s, end_s = plan.start_s[running:], plan.end_s[running:]
        return float(bounded_slowdown_by_delay(start_s - snapshot.queued.submit_s, end_s - start_s).mean())


def deciding(capacity: CapacityPolicy, setup: OnlineSetup, jobs: Jobs, sla: float) -> CapacityPolicy:
    """Return the policy as the setup's scheduler and OLS know run times, which nothing but the setup predicts.

    A policy without decisions is unchanged, and so is one that predicts as the agent does.
    """
    decide = capacity.decide
    if decide is None or setup.what_if == AS_AGENT:
        return capacity
    if setup.judged == QUEUED_JOBS:
        decide = JudgesQueued(sla)
    if setup.what_if != AS_SCHEDULER:
        decide = KnowsOtherwise(decide, known_otherwise(jobs, setup))
    return replace(capacity, decide=decide, by_limits=True)


def known_otherwise(jobs: Jobs, setup: OnlineSetup) -> dict[JobTimes, int]:
    """Return the run times [s] that OLS knows, by those that the scheduler knows: users' estimates or exact ones."""
    columns = {"exact": jobs.runtime_s, "user": jobs.estimate_s}
    known = zip(jobs.submit_s.tolist(), jobs.size.tolist(), columns[setup.estimates].tolist(), strict=True)
    return dict(zip(known, columns[setup.what_if].tolist(), strict=True))


DAYS_A_YEAR = 365
DIGITS = 5


def run(experiment: OnlineExperiment, log: StudyLog) -> OnlineResult:
    """Replay the log's jobs, each submitted 0 to 60 s later than in the log, at random."""
    setup = experiment.setup
    jobs = shift_submissions(
        arranged(log.trace.jobs, setup), np.random.default_rng([experiment.seed, experiment.replay])
    )
    machine = PoweredMachine(setup.size, 1, node_class_of(setup.nodes))
    policy = parse_policy("easy", SchedulingSettings(estimates=setup.estimates))
    power_w = np.full(len(jobs), machine.node_class.running_w(1.0))
    fleet = Fleet(machine.size, machine.units_per_node, machine.node_class)
    capacity = deciding(make_capacity_policy(setup.capacity, fleet, CapacitySettings(sla=SLA)), setup, jobs, SLA)
    schedule = replay_powered(jobs, power_w, machine, policy, capacity)
    usage = usage_of(jobs, power_w, schedule, machine)
    powered = PoweredUsage(usage, schedule.node_log, machine.node_class)
    return _result(
        powered,
        jobs,
        sleep_figures((powered,), powered.usage, jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=SLA),
    )


def _result(powered: PoweredUsage, jobs: Jobs, figures: SleepFigures) -> OnlineResult:
    usage = powered.usage
    slowdown = bounded_slowdown_by_delay(usage.start_s - jobs.submit_s, usage.end_s - usage.start_s)
    active, utilization = weekly_active(usage, powered.node_log)
    columns = (figures.weekly_slowdown, figures.weekly_violations, utilization, active)
    by_week = (tuple(None if np.isnan(value) else round(value, DIGITS) for value in each.tolist()) for each in columns)
    return OnlineResult(
        slowdown=float(slowdown.mean()),
        violations=float((slowdown > SLA).mean()),
        utilization=figures.utilization_of_active,
        inactive=figures.inactive_share,
        cycles=figures.power_cycles_per_node_day * DAYS_A_YEAR,
        idle_saved=figures.idle_saved_pct / 100,
        weekly=Weekly(*by_week),
    )
