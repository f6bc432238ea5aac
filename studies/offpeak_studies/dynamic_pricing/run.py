"""One experiment: how a log is replayed (setup) and billed (bill), its result, and the run.

Setup and bill are apart because a policy knows only whether the price is high, never how high: one replay serves all
price ratios and all powers of idle nodes. A log may be replayed on a smaller machine, shortened, at another load,
faster, or one month of it. The slides give only the ratio of the highest to the lowest power of a job: the
distributions here spread power over jobs. `run` is a pure function of the log, the setup and the seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.step_integrals import StepIntegral, Usage, energy_and_charge, integrals
from offpeak.model.step_series import integral_between
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine, log_span
from offpeak.sim_backend.comparison.compare import Comparison, compare, meters_of
from offpeak.sim_backend.comparison.outcome import PolicyOutcome, PolicyRun, saving_pct
from offpeak.sim_backend.comparison.replications import shifted
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak_studies.logs import StudyLog, at_load

WITH_BACKFILLING = ("easy", "greedy", "knapsack")
WITHOUT_BACKFILLING = ("fcfs", "fcfs+greedy", "fcfs+knapsack")
BASELINE_WITHOUT = ("fcfs", "greedy", "knapsack")
FIRST_FIT = ("first-fit", "first-fit+greedy", "first-fit+knapsack")
FIRST_FIT_AGAINST_FCFS = ("fcfs", "first-fit+greedy", "first-fit+knapsack")
TO_THE_LETTER = ("easy", "knapsack-slide")
NO_BOUND_S = 10**9


@dataclass(frozen=True)
class PricingSetup:
    """How a log is replayed. The defaults are the starting point of the study.

    `policies`: the first is the baseline. `power`: a distribution of `draw_power_w`; the job of the highest power draws
    `power_ratio` times that of the lowest. `on_peak`: hours of the local clock. `machine_size`: in the unit of the log,
    wider jobs are left out; None is the log's own. `first_jobs`: replay only that many. `load`: gaps between
    submissions are scaled to this offered load; None leaves them. `compressed`: all times of the log are divided by it.
    `month`: only the jobs of that 30-day stretch, from 0, on an empty machine. `period_s`: 0 is a pass at each event.
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
    """How the schedules of a replay are charged.

    `price_ratio`: on-peak over off-peak. `idle_w`: of an idle unit; the job of the lowest power draws 100 W. `metered`
    names a field of PricingPolicyResult: each second at its own price, whole jobs at the price of their start, or only
    the use until the last submission.
    """

    price_ratio: float = 3.0
    idle_w: float = 75.0
    metered: str = "as_run"


@dataclass(frozen=True)
class PricingExperiment:
    """One replay: all policies of a setup on a log, with draws from the seed (`seed`, `replay`)."""

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
    """One policy. `PricingBill.metered` chooses one of `as_run`, `at_start` and `until_last_submission`.

    `draw_w` and `busy` are the mean draw of the jobs [W] and the mean share of busy units in each hour of the local
    day, from the first to the last submission.
    """

    policy: str
    mean_wait_s: float
    utilization: float
    as_run: PricedUse
    at_start: PricedUse
    until_last_submission: PricedUse
    draw_w: tuple[float, ...] = ()
    busy: tuple[float, ...] = ()


@dataclass(frozen=True)
class PricingResult:
    """The replays of a setup's policies, the baseline first; `baselines` is the first one in the period of each pair.

    `perfect` is the baseline's use with the same node-hours on-peak and off-peak, but with the jobs of the lowest power
    on-peak: no change of order alone saves more.
    """

    policies: tuple[PricingPolicyResult, ...]
    baselines: tuple[PricingPolicyResult, ...]
    perfect: PricedUse


def cost(used: PricedUse, bill: PricingBill) -> float:
    """Return the cost, in joules at the off-peak price."""
    on_peak_j = used.on_peak_j + bill.idle_w * used.on_peak_idle_s
    return bill.price_ratio * on_peak_j + used.off_peak_j + bill.idle_w * used.off_peak_idle_s


def saved_pct(result: PricingResult, at: int, bill: PricingBill) -> float:
    """Return by how many per cent policy number `at` is cheaper than the baseline."""
    baseline, other = (getattr(results[at], bill.metered) for results in (result.baselines, result.policies))
    return saving_pct(cost(other, bill), cost(baseline, bill))


def ceiling_pct(result: PricingResult, bill: PricingBill) -> float:
    """Return the saving of the perfect order."""
    return saving_pct(cost(result.perfect, bill), cost(result.policies[0].as_run, bill))


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


def faster(jobs: Jobs, times: int) -> Jobs:
    """Return the jobs with gaps, run times and estimates divided; a run and an estimate keep at least a second."""
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


LOWEST_W = 100.0


def draw_power_w(distribution: str, ratio: float, jobs: Jobs, rng: Generator) -> Float64:
    """Return each job's draw per unit [W], float64[n], from 100 W to `ratio` times that."""
    return LOWEST_W * (1 + (ratio - 1) * DISTRIBUTIONS[distribution](jobs, rng))


def _by_user(jobs: Jobs, rng: Generator) -> Float64:
    users, user = np.unique(jobs.user, return_inverse=True)
    return rng.random(len(users))[user]


def _place(value: NDArray[np.int64], rng: Generator) -> Float64:
    """Return the rank of each value among all, from 0 to 1; equal values are in random order."""
    order = np.lexsort((rng.random(len(value)), value))
    place = np.empty(len(value))
    place[order] = np.arange(len(value)) / max(len(value) - 1, 1)
    return place


DISTRIBUTIONS: Mapping[str, Callable[[Jobs, Generator], Float64]] = {
    "uniform": lambda jobs, rng: rng.random(len(jobs)),
    "two kinds": lambda jobs, rng: rng.integers(2, size=len(jobs)).astype(np.float64),
    "three kinds": lambda jobs, rng: rng.integers(3, size=len(jobs)) / 2,
    "by user": _by_user,
    "wide jobs hungry": lambda jobs, rng: _place(jobs.size, rng),
    "heavy jobs hungry": lambda jobs, rng: _place(jobs.size * jobs.runtime_s, rng),
}
"""Each job's place between the lowest power (0) and the highest (1), by name."""

# At this tariff the cost of an energy is its on-peak part, and idle units of 1 W cost their on-peak seconds.
ONE_ON_PEAK = "on=1EUR/MWh,off=0EUR/MWh,hours={hours},zone={zone}"
IDLE_W = 1.0


def run(experiment: PricingExperiment, log: StudyLog) -> PricingResult:
    """Replay the setup's policies. Submissions are shifted by 0 to 60 s and powers are drawn, both at random."""
    setup = experiment.setup
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    comparison = compare(case_of(log, setup, rng), tuple(_policy(name, setup) for name in setup.policies))
    meter = meters_of(comparison.case, comparison.until_s).price
    clock_s = _clock_s(log, comparison.begin_s)
    case, outcomes = comparison.case, comparison.outcomes
    policies = tuple(
        _result(case, run, outcome, meter, clock_s) for run, outcome in zip(comparison.runs, outcomes, strict=True)
    )
    baselines = tuple(_result(case, run, outcomes[0], meter, clock_s) for run in comparison.baselines)
    return PricingResult(policies, baselines, _perfect(policies[0].as_run, comparison, meter))


def case_of(log: StudyLog, setup: PricingSetup, rng: Generator) -> ReplayCase:
    """Return the log's jobs with their power, on its machine, at a tariff of 1 on-peak and 0 off-peak."""
    jobs, size = arranged(log, setup)
    tariff = ONE_ON_PEAK.format(hours=setup.on_peak, zone=log.trace.time_zone or "UTC")
    prices = prices_of(log_span(log.trace, jobs), PriceSettings(tariff=tariff), None)
    case = ReplayCase(jobs, jobs.node_power_w, ReplayMachine(size, IDLE_W), prices, None)
    return shifted(case, rng, partial(draw_power_w, setup.power, setup.power_ratio, jobs))


def _policy(name: str, setup: PricingSetup) -> Policy:
    scheduling = SchedulingSettings(
        window=setup.window,
        period_s=setup.period_s or None,
        max_postponement_s=setup.max_postponement_s,
        estimates=setup.estimates,
    )
    return parse_policy(name, scheduling)


def _clock_s(log: StudyLog, begin_s: int) -> int:
    """Return what to add to the log's seconds for those of the local clock as it is at the beginning."""
    span = log_span(log.trace, log.trace.jobs)
    unix_s = span.unix_start_s or 0
    offset = datetime.fromtimestamp(unix_s + begin_s, span.zone).utcoffset()
    return unix_s + (int(offset.total_seconds()) if offset else 0)


def _result(
    case: ReplayCase, run: PolicyRun, outcome: PolicyOutcome, meter: StepIntegral, clock_s: int
) -> PricingPolicyResult:
    usage = run.usage
    as_run, last_s = _used(meter, usage), int(case.jobs.submit_s[-1])
    start_s, end_s = (np.minimum(times_s, last_s) for times_s in (usage.start_s, usage.end_s))
    return PricingPolicyResult(
        policy=run.policy,
        mean_wait_s=outcome.mean_wait_s,
        utilization=outcome.utilization,
        as_run=as_run,
        at_start=_at_start(meter, usage, as_run),
        until_last_submission=_used(meter, replace(usage, start_s=start_s, end_s=end_s, until_s=last_s)),
        draw_w=_by_hour(usage, usage.size * usage.node_power_w, last_s, clock_s),
        busy=_by_hour(usage, usage.size / usage.machine_size, last_s, clock_s),
    )


def _by_hour(usage: Usage, amount: Float64, last_s: int, clock_s: int) -> tuple[float, ...]:
    """Return the mean over all days of the sum of the running jobs' amounts, by hour of the day."""
    at_s = np.concatenate([usage.start_s, usage.end_s])
    order = np.argsort(at_s, kind="stable")
    level = np.cumsum(np.concatenate([amount, -amount])[order])[:-1]
    edges_s = np.arange(usage.begin_s - (usage.begin_s + clock_s) % HOUR_S, last_s + HOUR_S, HOUR_S)
    hour = (edges_s[:-1] + clock_s) // HOUR_S % 24
    within = np.bincount(hour, integral_between(at_s[order], level, edges_s), 24)
    mean = within / (HOUR_S * np.maximum(np.bincount(hour, minlength=24), 1))
    return tuple(mean.round(4).tolist())


def _used(meter: StepIntegral, usage: Usage) -> PricedUse:
    energy, on_peak = energy_and_charge(meter, usage)
    return PricedUse(on_peak.jobs, energy.jobs - on_peak.jobs, on_peak.idle, energy.idle - on_peak.idle)


def _at_start(meter: StepIntegral, usage: Usage, as_run: PricedUse) -> PricedUse:
    """Return the use with each job's energy at the price of its first second."""
    on_peak = integrals(meter, usage.start_s, usage.start_s + 1)
    energy_j = usage.size * usage.node_power_w * (usage.end_s - usage.start_s)
    on_peak_j = float(np.dot(energy_j, on_peak))
    return replace(as_run, on_peak_j=on_peak_j, off_peak_j=float(energy_j.sum()) - on_peak_j)


def _perfect(baseline: PricedUse, comparison: Comparison, meter: StepIntegral) -> PricedUse:
    """Return the baseline's use if the jobs of the lowest power had filled its busy unit-seconds on-peak."""
    schedule = comparison.runs[0].schedule
    jobs = comparison.case.jobs
    on_peak_s = float(np.dot(jobs.size, integrals(meter, schedule.start_s, schedule.end_s)))
    unit_s = jobs.size * (schedule.end_s - schedule.start_s)
    on_peak_j = least_energy_j(unit_s, comparison.case.node_power_w, on_peak_s)
    return replace(baseline, on_peak_j=on_peak_j, off_peak_j=baseline.on_peak_j + baseline.off_peak_j - on_peak_j)


def least_energy_j(unit_s: Int64, power_w: Float64, within_s: float) -> float:
    """Return the least energy [J] that `within_s` unit-seconds can have, taken from jobs of these unit-seconds."""
    order = np.argsort(power_w)
    used_s = unit_s[order].astype(np.float64)
    before_s = np.cumsum(used_s) - used_s
    return float(np.dot(np.clip(within_s - before_s, 0, used_s), power_w[order]))
