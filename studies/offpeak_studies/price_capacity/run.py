"""One experiment: load, price spread, length of jobs and allowed slowdown, its result, and the run.

The run is a pure function of the log, the prices, the setup and the seed: jobs that fill 30 days, longer or shorter, at
a load, on prices of a file whose gaps are filled from the week before. The blind cap needs no what-if: it offers half
of the nodes in the most expensive six hours of each day, independent of the queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_MWH
from offpeak.model.job_power import assumed_power
from offpeak.model.jobs import Jobs
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_series import Series, fill_gaps
from offpeak.plugin.capacity.policies import FROM_THE_BEGINNING
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.capacity.rules import CapacitySchedule
from offpeak.power.capacity.price_profile import make_power_terms
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.sim_backend.case.electricity import ReplayPrices, prices_of
from offpeak.sim_backend.case.replay_case import ReplayCase, ReplayMachine, fleet_of, log_span
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.outcome import PolicyOutcome, PolicyRun, saving_pct
from offpeak.sim_backend.comparison.replications import shifted
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak_studies.logs import StudyLog, at_load

ALWAYS_ON, TIMEOUT, BLIND = "always-on", "timeout:10min", "blind"
SLAS = (1.5, 3.0, 10.0, 200.0)
FEW_SLAS = (1.5, 10.0)


def profile(sla: float) -> str:
    """Return the name of the profile policy with that SLA, planned again each hour."""
    return f"profile:1h:{sla:g}"


EVERY_POLICY = (ALWAYS_ON, TIMEOUT, BLIND, *map(profile, SLAS))
FEW_POLICIES = (ALWAYS_ON, TIMEOUT, *map(profile, FEW_SLAS))


@dataclass(frozen=True)
class CapacitySetup:
    """How a stretch of a log, of about 30 days, is replayed under EASY. The defaults are the starting point.

    `load`: gaps between submissions are scaled to this share of the machine. `spread`: how many times as far prices lie
    from their mean. `length`: run times and estimates are multiplied by it before. `policies`: the first of them is
    what others are compared with, BLIND offers half of the nodes in the most expensive six hours of each day.
    """

    load: float = 0.7
    spread: float = 1.0
    length: float = 1.0
    policies: tuple[str, ...] = EVERY_POLICY


@dataclass(frozen=True)
class CapacityExperiment:
    """One replay: all policies of a setup on a log, with draws from the seed (`seed`, `replay`).

    Replay number i is of the i-th stretch of the log that fills 30 days, from the first again behind the last, and of
    the prices of its i-th month.
    """

    log: str
    seed: int
    replay: int
    setup: CapacitySetup


@dataclass(frozen=True)
class Factor:
    """A setup and the name and value of its change."""

    name: str
    value: str
    setup: CapacitySetup


FACTORS = (
    *(Factor("load", f"{load:.0%}", CapacitySetup(load=load, policies=FEW_POLICIES)) for load in (0.5, 0.9)),
    *(
        Factor("price spread", f"x {times:g}", CapacitySetup(spread=times, policies=FEW_POLICIES))
        for times in (0.5, 2.0)
    ),
    *(
        Factor("length", f"x {times:g}", CapacitySetup(length=times, policies=FEW_POLICIES))
        for times in (0.1, 0.25, 4.0)
    ),
    Factor("all three", "50%, x 2, x 0.25", CapacitySetup(load=0.5, spread=2.0, length=0.25, policies=FEW_POLICIES)),
)


@dataclass(frozen=True)
class CapacityPolicyResult:
    """`cost` is that of the machine, `job_cost` that of its jobs; the mean slowdown is 1 + wait / max(10 s, run).

    `baseline_cost` is what the machine costs in the same period if its nodes are always on.
    """

    policy: str
    jobs: int
    job_cost: float
    cost: float
    baseline_cost: float
    mean_wait_s: float
    slowdown: float


@dataclass(frozen=True)
class CapacityResult:
    """A replay under all policies of its setup, nodes that are always on first."""

    policies: tuple[CapacityPolicyResult, ...]

    def of(self, policy: str) -> CapacityPolicyResult:
        """Return the result of one policy."""
        return next(result for result in self.policies if result.policy == policy)

    def job_saved_pct(self, policy: str) -> float:
        """Return what a policy saves of the cost of the jobs' energy, by moving jobs in time alone."""
        return saving_pct(self.of(policy).job_cost, self.policies[0].job_cost)

    def saved_pct(self, policy: str) -> float:
        """Return what a policy saves of the machine's cost, sleeping nodes included."""
        result = self.of(policy)
        return saving_pct(result.cost, result.baseline_cost)

    def longer_h(self, policy: str) -> float:
        """Return by how many hours a policy lengthens the mean wait."""
        return (self.of(policy).mean_wait_s - self.policies[0].mean_wait_s) / HOUR_S

    def longer_pct(self, policy: str) -> float:
        """Return by how many per cent a policy lengthens the mean wait."""
        return -saving_pct(self.of(policy).mean_wait_s, self.policies[0].mean_wait_s)


START = CapacitySetup()


STRETCH_S = 30 * DAY_S


def arranged(log: StudyLog, setup: CapacitySetup, replay: int) -> Jobs:
    """Return the jobs of a replay, submitted from the same day on in every setup: prices differ from month to month."""
    # Jobs a quarter as long are four times as many in 30 days at the same load.
    stretch = stretch_of(log, int(STRETCH_S / setup.length), replay)
    jobs = at_load(lengthened(stretch, setup.length), log.size, setup.load)
    months = stretches_of(log, STRETCH_S)
    begin_s = log.trace.jobs.submit_s[0] + months[replay % len(months)] * STRETCH_S
    return replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0] + begin_s)


def stretch_of(log: StudyLog, stretch_s: int, replay: int) -> Jobs:
    """Return the jobs of the stretch for a replay; after the last stretch comes the first again."""
    jobs, numbers = log.trace.jobs, stretches_of(log, stretch_s)
    after_s = jobs.submit_s - jobs.submit_s[0]
    return jobs.take(after_s // stretch_s == numbers[replay % len(numbers)])


def stretches_of(log: StudyLog, stretch_s: int) -> Int64:
    """Return the numbers of the log's whole stretches that have jobs, or of the first if none is whole."""
    submit_s = log.trace.jobs.submit_s
    numbers: Int64 = np.unique((submit_s - submit_s[0]) // stretch_s)
    return numbers[numbers < max(log.span_s // stretch_s, 1)]


def lengthened(jobs: Jobs, times: float) -> Jobs:
    """Return the jobs with run times and estimates multiplied, each at least a second."""
    runtime_s, estimate_s = (
        np.maximum(np.rint(column * times), np.minimum(column, 1)).astype(np.int64)
        for column in (jobs.runtime_s, jobs.estimate_s)
    )
    return replace(jobs, runtime_s=runtime_s, estimate_s=estimate_s)


def spread_out(series: Series, times: float) -> Series:
    """Return the series with the distance of each value from the mean over time multiplied."""
    known = series.known
    mean = float(np.average(series.value[known], weights=series.length_s[known]))
    return replace(series, value=mean + times * (series.value - mean))


EXPENSIVE_S = 6 * HOUR_S
SHARE = 0.5


def blind(fleet: Fleet, settings: CapacitySettings) -> CapacityPolicy:
    """Return the policy for a fleet whose prices are known for all time."""
    at_s, terms = fleet.price_at_s.copy(), make_power_terms(fleet, settings)
    day = (at_s - at_s[0]) // DAY_S
    order = np.lexsort((-np.nan_to_num(fleet.price_per_mwh), day))
    length_s = np.diff(at_s, append=at_s[-1])[order]
    before_s = np.cumsum(length_s) - length_s
    first_of_day = np.searchsorted(day[order], day[order])
    is_expensive = np.empty(len(at_s), dtype=np.bool_)
    is_expensive[order] = before_s - before_s[first_of_day] < EXPENSIVE_S
    target = np.where(is_expensive, int(SHARE * fleet.nodes), fleet.nodes)
    at_s[0] = FROM_THE_BEGINNING
    schedule = CapacitySchedule(at_s, target, np.zeros_like(target), np.tile(terms.after_s, (len(at_s), 1)))
    return CapacityPolicy(BLIND, terms.capacity, schedule)


def aligned_on(log: StudyLog, file: Path) -> ReplayPrices:
    """Return the prices laid on the whole log. Raises BadPrices if they cannot be read or are of less than a day."""
    prices = _as_read(log, file)
    return replace(prices, aligned=replace(prices.aligned, series=fill_gaps(prices.aligned.series)))


def price_notes(log: StudyLog, file: Path) -> tuple[str, ...]:
    """Return notes on the spread of prices, the filled gaps, and the position of the log on the prices."""
    aligned = _as_read(log, file).aligned
    series = aligned.series
    known, length_s = series.value[series.known], series.length_s[series.known]
    mean = np.average(known, weights=length_s)
    deviation = np.sqrt(np.average((known - mean) ** 2, weights=length_s))
    notes = [f"prices: {file.name}, mean {mean:.2f}, standard deviation {deviation:.2f} {series.unit}"]
    unknown_h, all_h = float(series.length_s[~series.known].sum()) / HOUR_S, float(series.length_s.sum()) / HOUR_S
    if unknown_h:
        used = "the price of the same hour a week earlier is used"
        notes.append(f"{unknown_h:,.6g} of {all_h:,.6g} hours have no price: {used}")
    last_s = log_span(log.trace, log.trace.jobs).last_s
    return (*notes, f"{log.source.name}: {'; '.join(aligned.notes_until(last_s))}")


def _as_read(log: StudyLog, file: Path) -> ReplayPrices:
    return prices_of(log_span(log.trace, log.trace.jobs), PriceSettings(file=file), None)


NODES = bundled_node_class("server")


def run(experiment: CapacityExperiment, log: StudyLog, prices: ReplayPrices) -> CapacityResult:
    """Replay under the setup's policies. Submissions are shifted by 0 to 60 s and powers are drawn, both at random."""
    case, policies = case_of(experiment, log, prices), experiment.setup.policies
    comparison = compare(case, tuple(policy_named(name, case) for name in policies))
    runs = zip(policies, comparison.runs, comparison.outcomes, strict=True)
    return CapacityResult(tuple(_result(name, run, outcome) for name, run, outcome in runs))


def run_at_prices(experiment: CapacityExperiment, log: StudyLog, prices: Mapping[str, ReplayPrices]) -> CapacityResult:
    """Run an experiment at the prices that are laid on its log."""
    return run(experiment, log, prices[log.source.name])


def case_of(experiment: CapacityExperiment, log: StudyLog, prices: ReplayPrices) -> ReplayCase:
    """Return the case of the replay: each unit of the log is a node of the class `server`."""
    setup = experiment.setup
    jobs = arranged(log, setup, experiment.replay)
    aligned = replace(prices.aligned, series=spread_out(prices.aligned.series, setup.spread))
    machine, nodes = ReplayMachine(log.size, NODES.idle_w), PoweredMachine(log.size, 1, NODES)
    case = ReplayCase(jobs, jobs.node_power_w, machine, replace(prices, aligned=aligned), None, nodes)
    rng = np.random.default_rng([experiment.seed, experiment.replay])
    return shifted(case, rng, partial(assumed_power(NODES).draw_w, jobs))


def policy_named(name: str, case: ReplayCase) -> Policy:
    """Return EASY on nodes that sleep by the capacity policy of that name, which plans with the users' estimates."""
    fleet, settings = fleet_of(case), CapacitySettings()
    capacity = blind(fleet, settings) if name == BLIND else make_capacity_policy(name, fleet, settings)
    return parse_policy("easy", SchedulingSettings()).on(replace(capacity, by_limits=True))


def _result(name: str, run: PolicyRun, outcome: PolicyOutcome) -> CapacityPolicyResult:
    return CapacityPolicyResult(
        policy=name,
        jobs=outcome.jobs,
        job_cost=run.charges.cost.jobs / J_PER_MWH,
        cost=outcome.cost,
        baseline_cost=outcome.cost + outcome.saved,
        mean_wait_s=outcome.mean_wait_s,
        slowdown=outcome.mean_bounded_slowdown_by_delay,
    )
