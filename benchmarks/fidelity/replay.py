"""Replays the mixed workload in the mixed engine, on the compressed clock of a live run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.workload import GROUPS, HIGH, OFF_W, MixedDay, NodeGroup, mixed_cluster
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import SchedulerTiming
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_states import OFF, asleep
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, engine_case
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.nodes.node_log import NodeLog
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import Replay, SleepingNodes, replay_case, rules_of

TICKS = 100
"""The engine counts whole numbers: these are hundredths of a second of the compressed clock."""

MINUTE_S = 60
ON_PEAK_H, DAY_H = (9, 23), 24
MOST_DAYS = 30
OWN_ORDER = "conservative"
"""Slurm's backfill plans the start of each job, up to bf_max_job_test, by the site's own order."""
RESERVATIONS = 500
"""Slurm's default of bf_max_job_test."""
BF_RESOLUTION_S = 1
"""As slurm.conf of the run says."""
END_WINDOW_S = 30
"""In Slurm's source; five hours on the clock of six seconds."""


@dataclass(frozen=True)
class Clock:
    """An hour of the log lasts `hour_s` seconds."""

    hour_s: float

    def ticks(self, hours: Float64) -> Int64:
        """Return hours of the log in the engine's ticks."""
        return np.round(hours * self.hour_s * TICKS).astype(np.int64)

    def limit_min(self, day: MixedDay) -> Int64:
        """Return the time limits of the jobs as Slurm takes them: in whole minutes, one for all tasks of an array."""
        limit_min = np.maximum(1, np.ceil(day.limit_h * self.hour_s / MINUTE_S)).astype(np.int64)
        for array in np.unique(day.array[day.array >= 0]):
            tasks = day.array == array
            limit_min[tasks] = limit_min[tasks].max()
        return limit_min

    def peaks(self) -> PeakTimes:
        """Return the changes of the tariff."""
        hours = np.array([[each * DAY_H + hour for hour in ON_PEAK_H] for each in range(MOST_DAYS)]).ravel()
        times = np.concatenate([[0], self.ticks(hours.astype(np.float64))])
        return PeakTimes(times, (np.arange(len(times)) % 2).astype(np.int8))


@dataclass(frozen=True)
class Timing:
    """Slurm's timing on this machine [s]: see SchedulerTiming. `launch_s` is from an allocation to the job's start.

    `cycle_s` is the interval of the agent's orders, 0 for an order at each pass.
    """

    bf_interval_s: float = 0.0
    completing_s: float = 0.0
    launch_s: float = 0.0
    cycle_s: float = 0.0
    end_window_s: int = 0
    bf_resolution_s: int = 0

    def in_ticks(self) -> SchedulerTiming:
        """Return what the engine takes; a job holds its nodes from the allocation on."""
        return SchedulerTiming(
            bf_most_jobs=RESERVATIONS,
            bf_resolution_s=round(self.bf_resolution_s * TICKS),
            order_interval_s=round(self.cycle_s * TICKS),
            bf_interval_s=round(self.bf_interval_s * TICKS),
            completing_s=round((self.completing_s + self.launch_s) * TICKS),
            end_window_s=self.end_window_s * TICKS,
        )


@dataclass(frozen=True)
class Sleep:
    """Nodes sleep that were idle for `after_h` [h]; they need `shutdown_s` to go down and `boot_s` to come up [s].

    `limited`: the OLS policy decides once in `after_h` how many nodes jobs get. slurmctld starts jobs on woken nodes at
    multiples of `check_s`.
    """

    after_h: float
    limited: bool = False
    shutdown_s: float = 0.5
    boot_s: float = 1.0
    check_s: int = 30


class Asleep(NamedTuple):
    """A node of that idle power was off from one hour until another."""

    idle_w: float
    from_h: float
    until_h: float


@dataclass(frozen=True)
class Run:
    """When each job started and ended [h], the idle power of its part of the nodes [W], and which nodes were off."""

    start_h: Float64
    end_h: Float64
    replaced_w: Float64
    asleep: Sequence[Asleep] = ()


def case_of(day: MixedDay, clock: Clock, late_s: Float64 | None = None) -> EngineCase:
    """Return the case of the workload; each job is submitted `late_s` later, the tasks of an array together."""
    submit = clock.ticks(day.submit_h)
    if late_s is not None:
        submit = np.maximum.accumulate(submit + np.round(late_s * TICKS).astype(np.int64))
    is_high = np.array([request.qos == HIGH for request in day.requests])
    jobs = RequestedJobs(
        job_id=np.arange(len(day)),
        submit_s=submit,
        runtime_s=clock.ticks(day.run_h),
        estimate_s=clock.limit_min(day) * MINUTE_S * TICKS,
        request=day.request,
        part_power_w=day.part_w,
        priority=is_high[day.request].astype(np.int64),
        array=day.array,
        throttle=day.throttle,
    )
    return engine_case(mixed_cluster(), day.requests, jobs)


def engine_run(
    day: MixedDay,
    clock: Clock,
    policy: str,
    timing: Timing,
    *,
    late_s: Float64 | None = None,
    sleep: Sleep | None = None,
) -> Run:
    """Return the engine's replay of a policy; with `sleep` nodes sleep, also after the last job."""
    named = parse_policy(policy, SchedulingSettings(max_postponement_s=round(DAY_H * clock.hour_s * TICKS)))
    scheduler = timing.in_ticks()._replace(boot_check_s=sleep.check_s * TICKS if sleep else 0)
    case, rules = case_of(day, clock, late_s), rules_of(named, scheduler)
    off = list[Asleep]()
    if sleep is None:
        schedule = replay_case(case, named, rules, peaks=clock.peaks())
    else:
        classes = [_node_class(group, sleep) for group in GROUPS]
        name = f"{'ols' if sleep.limited else 'timeout'}:{clock.ticks(np.array([sleep.after_h]))[0]}s"
        capacity = tuple(
            make_capacity_policy(name, Fleet(group.nodes, 1, each), CapacitySettings())
            for group, each in zip(GROUPS, classes, strict=True)
        )
        powered = Replay(
            case, replace(named, capacity=capacity), rules, SleepingNodes(tuple(classes)), peaks=clock.peaks()
        )
        powered.run()
        powered.rest(int(clock.peaks().at_s[-1]))
        schedule = powered.schedule()
        off = [each for pool, log in enumerate(schedule.node_logs) for each in _times_off(log, GROUPS[pool], clock)]
    idle_w = np.array([group.idle_w for group in GROUPS])
    placed_w = schedule.places.nodes * idle_w[schedule.places.pool]
    replaced_w: Float64 = np.bincount(schedule.places.job, placed_w, len(day)).astype(np.float64)
    start_h = schedule.start_s / (clock.hour_s * TICKS) + timing.launch_s / clock.hour_s
    return Run(start_h, start_h + day.run_h, replaced_w, off)


def _node_class(group: NodeGroup, sleep: Sleep) -> NodeClass:
    enter, leave = (Transition(round(each * TICKS), group.idle_w, 0.0) for each in (sleep.shutdown_s, sleep.boot_s))
    busy = ((0.0, group.idle_w), (1.0, group.idle_w))
    return NodeClass("", group.idle_w, busy, (DepthPower(OFF, OFF_W, enter, leave),))


def _times_off(log: NodeLog, group: NodeGroup, clock: Clock) -> Iterator[Asleep]:
    """Yield when nodes of a group were off; those that are off at the end stay off."""
    since_h: dict[int, float] = {}
    for at_h, node, state in zip(log.at_s / (clock.hour_s * TICKS), log.node.tolist(), log.state.tolist(), strict=True):
        from_h = since_h.pop(node, None)
        if from_h is not None:
            yield Asleep(group.idle_w, from_h, at_h)
        if state == asleep(OFF):
            since_h[node] = at_h
    for from_h in since_h.values():
        yield Asleep(group.idle_w, from_h, math.inf)
