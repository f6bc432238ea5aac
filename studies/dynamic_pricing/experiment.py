"""What is varied: how a log is replayed (setup) and how its schedules are billed (bill), and what a replay results
in.

Setup and bill are apart because a policy knows only whether the price is high, never how high: one replay serves
all price ratios and all powers of idle nodes. The layout of a log is a smaller machine, a shorter, busier or
faster log, or one month of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from sim_backend.outcome import saving_pct
from studies.logs import StudyLog

WITH_BACKFILLING = ("easy", "greedy", "knapsack")
WITHOUT_BACKFILLING = ("fcfs", "fcfs+greedy", "fcfs+knapsack")
BASELINE_WITHOUT = ("fcfs", "greedy", "knapsack")
FIRST_FIT = ("first-fit", "first-fit+greedy", "first-fit+knapsack")
FIRST_FIT_AGAINST_FCFS = ("fcfs", "first-fit+greedy", "first-fit+knapsack")
TO_THE_LETTER = ("easy", "knapsack-slide")
NO_BOUND_S = 10**9


@dataclass(frozen=True)
class PricingSetup:
    """How a log is replayed. The defaults are the study's starting point.

    `policies`: the first is the baseline. `power`: a distribution of `draw_power_w`, the hungriest job drawing
    `power_ratio` times the most frugal one. `on_peak`: hours of the local clock. `machine_size`: in the log's unit,
    wider jobs are left out; None is the log's own. `first_jobs`: only so many. `load`: gaps between submissions are
    scaled to this offered load; None leaves them. `compressed`: all times of the log are divided by it. `month`: only
    the jobs of that 30-day stretch, from 0, on an empty machine. `period_s` 0 is a pass at each event.
    """

    policies: tuple[str, ...] = WITH_BACKFILLING
    power: str = "uniform"
    power_ratio: float = 3.0
    on_peak: str = "09:00-23:00"
    machine_size: int | None = None
    first_jobs: int | None = None
    load: float | None = None
    compressed: int = 1
    month: int | None = None
    window: int = 20
    period_s: int = 10
    max_postponement_s: int = 24 * HOUR_S
    estimates: str = "user"


@dataclass(frozen=True)
class PricingBill:
    """What the schedules of a replay are charged.

    `price_ratio`: on-peak over off-peak. `idle_w`: of a unit that runs nothing; the most frugal job draws 100 W.
    `metered` names the field of a PolicyResult: each second at its own price, whole jobs at the price of their start,
    or only what is used until the last submission.
    """

    price_ratio: float = 3.0
    idle_w: float = 75.0
    metered: str = "as_run"


@dataclass(frozen=True)
class PricingExperiment:
    """One replay: all policies of a setup on a log, with the chances of the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    setup: PricingSetup


@dataclass(frozen=True)
class PricedUse:
    """Energy of the jobs [J] and idle unit-seconds, each on-peak and off-peak."""

    on_peak_j: float
    off_peak_j: float
    on_peak_idle_s: float
    off_peak_idle_s: float


@dataclass(frozen=True)
class PricingPolicyResult:
    """One policy's replay. `as_run`, `at_start` and `until_last_submission` are what `Bill.metered` chooses from."""

    policy: str
    mean_wait_s: float
    utilization: float
    as_run: PricedUse
    at_start: PricedUse
    until_last_submission: PricedUse


@dataclass(frozen=True)
class PricingResult:
    """The replays of a setup's policies, the baseline first.

    `perfect` is the baseline's use as it would be if its node-hours on-peak and off-peak stayed what they are, but the
    most frugal watts of all jobs had run on-peak: no mere change of order saves more.
    """

    policies: tuple[PricingPolicyResult, ...]
    perfect: PricedUse


def cost(used: PricedUse, bill: PricingBill) -> float:
    """Return the cost, in joules at the off-peak price."""
    on_peak_j = used.on_peak_j + bill.idle_w * used.on_peak_idle_s
    return bill.price_ratio * on_peak_j + used.off_peak_j + bill.idle_w * used.off_peak_idle_s


def saved_pct(result: PricingResult, at: int, bill: PricingBill) -> float:
    """Return by how many per cent policy number `at` is cheaper than the baseline."""
    baseline, other = (getattr(result.policies[number], bill.metered) for number in (0, at))
    return saving_pct(cost(other, bill), cost(baseline, bill))


def ceiling_pct(result: PricingResult, bill: PricingBill) -> float:
    """Return what the perfect order would save."""
    return saving_pct(cost(result.perfect, bill), cost(result.policies[0].as_run, bill))


def parse_result(told: Mapping[str, Any]) -> PricingResult:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    policies = tuple(_policy(each) for each in told["policies"])
    return PricingResult(policies, PricedUse(**told["perfect"]))


def _policy(told: Mapping[str, Any]) -> PricingPolicyResult:
    meters = {name: PricedUse(**told[name]) for name in ("as_run", "at_start", "until_last_submission")}
    return PricingPolicyResult(**(dict(told) | meters))


MONTH_S = 30 * DAY_S


def arranged(log: StudyLog, setup: PricingSetup) -> tuple[Jobs, int]:
    """Return the jobs that are replayed and the size of their machine."""
    size = setup.machine_size or log.size
    jobs = log.trace.jobs
    jobs = jobs.take(np.flatnonzero(jobs.size <= size)[: setup.first_jobs])
    if setup.load is not None:
        jobs = at_load(jobs, size, setup.load)
    if setup.compressed > 1:
        jobs = faster(jobs, setup.compressed)
    if setup.month is not None:
        jobs = jobs.take(month_of(jobs) == setup.month)
    return jobs, size


def offered_load(jobs: Jobs, size: int) -> float:
    """Return the share of the machine that the jobs ask for, from the first to the last submission."""
    span_s = max(int(jobs.submit_s[-1] - jobs.submit_s[0]), 1)
    return float(np.dot(jobs.size, jobs.runtime_s)) / (size * span_s)


def at_load(jobs: Jobs, size: int, load: float) -> Jobs:
    """Return the jobs with the gaps between submissions scaled to an offered load."""
    first_s = jobs.submit_s[0]
    scaled_s = (jobs.submit_s - first_s) * (offered_load(jobs, size) / load)
    return replace(jobs, submit_s=first_s + np.rint(scaled_s).astype(np.int64))


def faster(jobs: Jobs, times: int) -> Jobs:
    """Return the jobs with gaps, run times and estimates divided; a run or an estimate keeps a second at least."""
    first_s = jobs.submit_s[0]
    return replace(
        jobs,
        submit_s=first_s + (jobs.submit_s - first_s) // times,
        runtime_s=np.maximum(jobs.runtime_s // times, np.minimum(jobs.runtime_s, 1)),
        estimate_s=np.maximum(jobs.estimate_s // times, np.minimum(jobs.estimate_s, 1)),
    )


def month_of(jobs: Jobs) -> Int64:
    """Return the number of each job's 30-day stretch after the first submission, int64[n]."""
    after_s: Int64 = jobs.submit_s - jobs.submit_s[0]
    return after_s // MONTH_S


def months_of(log: StudyLog, setup: PricingSetup) -> int:
    """Return how many whole 30-day stretches a setup has."""
    jobs, _ = arranged(log, replace(setup, month=None))
    return int(jobs.submit_s[-1] - jobs.submit_s[0]) // MONTH_S
