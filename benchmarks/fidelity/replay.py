"""Replays the mixed workload in the mixed engine, on the compressed clock of a live run."""

from dataclasses import dataclass

import numpy as np

from benchmarks.fidelity.workload import HIGH, MixedDay, mixed_cluster
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import SchedulerTiming
from offpeak.settings.replay import SchedulingSettings
from sim_backend.engine.state import PeakTimes
from sim_backend.mixed.case import MixedCase, MixedJobs, mixed_case
from sim_backend.mixed.replay import replay_mixed, rules_of
from sim_backend.replay.policy import parse_policy

TICKS = 100
"""The engine counts whole numbers: these are hundredths of a second of the compressed clock."""

MINUTE_S = 60
ON_PEAK_H, DAY_H = (9, 23), 24
MOST_DAYS = 30
OWN_ORDER = "conservative"
"""Slurm's backfill plans the start of each job, up to bf_max_job_test, by the site's own order."""
RESERVATIONS = 500
"""Slurm's default of bf_max_job_test."""
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
        """Return the time limits of the jobs as Slurm takes them: in whole minutes, never less than the run time."""
        return np.maximum(1, np.ceil(day.limit_h * self.hour_s / MINUTE_S)).astype(np.int64)

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

    def in_ticks(self) -> SchedulerTiming:
        """Return what the engine takes; a job holds its nodes from the allocation on."""
        return SchedulerTiming(
            bf_most_jobs=RESERVATIONS,
            order_interval_s=round(self.cycle_s * TICKS),
            bf_interval_s=round(self.bf_interval_s * TICKS),
            completing_s=round((self.completing_s + self.launch_s) * TICKS),
            end_window_s=self.end_window_s * TICKS,
        )


def case_of(day: MixedDay, clock: Clock, late_s: Float64 | None = None, wake_h: Float64 | None = None) -> MixedCase:
    """Return the case of the workload; each job is submitted `late_s` later, the tasks of an array together.

    Each job holds its nodes for `wake_h` before it starts.
    """
    submit = clock.ticks(day.submit_h)
    if late_s is not None:
        submit = np.maximum.accumulate(submit + np.round(late_s * TICKS).astype(np.int64))
    is_high = np.array([request.qos == HIGH for request in day.requests])
    jobs = MixedJobs(
        job_id=np.arange(len(day)),
        submit_s=submit,
        runtime_s=clock.ticks(day.run_h if wake_h is None else day.run_h + wake_h),
        estimate_s=clock.limit_min(day) * MINUTE_S * TICKS,
        request=day.request,
        part_power_w=day.part_w,
        priority=is_high[day.request].astype(np.int64),
        array=day.array,
        throttle=day.throttle,
    )
    return mixed_case(mixed_cluster(), day.requests, jobs)


def engine_start_h(
    day: MixedDay,
    clock: Clock,
    policy: str,
    timing: Timing,
    *,
    late_s: Float64 | None = None,
    wake_h: Float64 | None = None,
) -> Float64:
    """Return when each job starts under the policy [h], `wake_h` not counted."""
    named = parse_policy(policy, SchedulingSettings(max_postponement_s=round(DAY_H * clock.hour_s * TICKS)))
    rules = rules_of(named, timing.in_ticks())
    case = case_of(day, clock, late_s, wake_h)
    schedule = replay_mixed(case, named, rules, peaks=clock.peaks())
    return schedule.start_s / (clock.hour_s * TICKS) + timing.launch_s / clock.hour_s
