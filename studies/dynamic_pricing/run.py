"""Runs one experiment: a pure function of the log, the setup and the seed."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_integrals import StepIntegral, Usage, energy_and_charge, integrals
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from sim_backend.case import log_span
from sim_backend.compare import Comparison, ReplayCase, compare, meters_of, usage_of
from sim_backend.electricity import prices_of
from sim_backend.outcome import ReplayMachine
from sim_backend.policy import Policy, parse_policy
from sim_backend.replications import shifted
from studies.dynamic_pricing.arrange import arranged
from studies.dynamic_pricing.experiment import Experiment, Setup
from studies.dynamic_pricing.logs import Log
from studies.dynamic_pricing.power import draw_power_w
from studies.dynamic_pricing.result import PolicyResult, Result, Used

# At this tariff the cost of an energy is its on-peak part, and idle units of 1 W cost their on-peak seconds.
ONE_ON_PEAK = "on=1EUR/MWh,off=0EUR/MWh,hours={hours},zone={zone}"
IDLE_W = 1.0


def run(experiment: Experiment, log: Log) -> Result:
    """Replay the setup's policies. Submissions come 0 to 60 s later than in the log, by chance, as powers do."""
    setup = experiment.setup
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    comparison = compare(case_of(log, setup, rng), tuple(_policy(name, setup) for name in setup.policies))
    meter = meters_of(comparison.case, comparison.until_s).price
    results = tuple(_result(comparison, number, meter) for number in range(len(setup.policies)))
    return Result(results, _perfect(results[0].as_run, comparison, meter))


def case_of(log: Log, setup: Setup, rng: Generator) -> ReplayCase:
    """Return the log's jobs with their power, on its machine, at a tariff of 1 on-peak and 0 off-peak."""
    jobs, size = arranged(log, setup)
    tariff = ONE_ON_PEAK.format(hours=setup.on_peak, zone=log.trace.time_zone or "UTC")
    prices = prices_of(log_span(log.trace, jobs), PriceSettings(tariff=tariff), None)
    case = ReplayCase(jobs, jobs.node_power_w, ReplayMachine(size, IDLE_W), prices, None)
    return shifted(case, rng, partial(draw_power_w, setup.power, setup.power_ratio, jobs))


def _policy(name: str, setup: Setup) -> Policy:
    scheduling = SchedulingSettings(
        window=setup.window,
        period_s=setup.period_s or None,
        max_postponement_s=setup.max_postponement_s,
        estimates=setup.estimates,
    )
    return parse_policy(name, scheduling)


def _result(comparison: Comparison, number: int, meter: StepIntegral) -> PolicyResult:
    run, outcome = comparison.runs[number], comparison.outcomes[number]
    usage = usage_of(comparison.case, run.schedule, comparison.begin_s, comparison.until_s)
    as_run = _used(meter, usage)
    return PolicyResult(
        policy=run.policy,
        mean_wait_s=outcome.mean_wait_s,
        utilization=outcome.utilization,
        as_run=as_run,
        at_start=_at_start(meter, usage, as_run),
        until_last_submission=_used(meter, _until(usage, int(comparison.case.jobs.submit_s[-1]))),
    )


def _used(meter: StepIntegral, usage: Usage) -> Used:
    energy, on_peak = energy_and_charge(meter, usage)
    return Used(on_peak.jobs, energy.jobs - on_peak.jobs, on_peak.idle, energy.idle - on_peak.idle)


def _at_start(meter: StepIntegral, usage: Usage, as_run: Used) -> Used:
    """Return the use with each job's energy at the price of its first second."""
    on_peak = integrals(meter, usage.start_s, usage.start_s + 1)
    energy_j = usage.size * usage.node_power_w * (usage.end_s - usage.start_s)
    on_peak_j = float(np.dot(energy_j, on_peak))
    return replace(as_run, on_peak_j=on_peak_j, off_peak_j=float(energy_j.sum()) - on_peak_j)


def _until(usage: Usage, until_s: int) -> Usage:
    start_s, end_s = (np.minimum(times_s, until_s) for times_s in (usage.start_s, usage.end_s))
    return replace(usage, start_s=start_s, end_s=end_s, until_s=until_s)


def _perfect(baseline: Used, comparison: Comparison, meter: StepIntegral) -> Used:
    """Return the baseline's use if the most frugal watts had filled its busy unit-seconds on-peak."""
    schedule = comparison.runs[0].schedule
    jobs = comparison.case.jobs
    on_peak_s = float(np.dot(jobs.size, integrals(meter, schedule.start_s, schedule.end_s)))
    unit_s = jobs.size * (schedule.end_s - schedule.start_s)
    on_peak_j = frugal_j(unit_s, comparison.case.node_power_w, on_peak_s)
    return replace(baseline, on_peak_j=on_peak_j, off_peak_j=baseline.on_peak_j + baseline.off_peak_j - on_peak_j)


def frugal_j(unit_s: Int64, power_w: Float64, within_s: float) -> float:
    """Return the least energy [J] that `within_s` unit-seconds can have, taken from jobs of these unit-seconds."""
    order = np.argsort(power_w)
    used_s = unit_s[order].astype(np.float64)
    before_s = np.cumsum(used_s) - used_s
    return float(np.dot(np.clip(within_s - before_s, 0, used_s), power_w[order]))
