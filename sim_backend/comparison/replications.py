"""Replays one case many times, to tell a policy's effect from chance.

Each replay has slightly shifted submit times and, where the log has no dates among the prices, another week of them.
Replays are chaotic: a job submitted half a minute later can change the schedule of all later jobs. So one replay says
little about a small difference between policies. Twenty replays, each with its own small shifts, show how much of it is
chance. Where the week of the prices is a choice, it is the largest chance of all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator

from offpeak.executor import THREADS, Executor, check_interrupt
from offpeak.model.arrays import Float64
from offpeak.prices.alignment import AlignmentWeeks
from offpeak.sim_backend.case.replay_case import ReplayCase
from offpeak.sim_backend.comparison.compare import compare, curve_of_run, meters_of
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.weeks import (
    NOTHING_KNOWN,
    STUDENT_95,
    FurtherPeriod,
    ReplayedWeeks,
    costs_of_weeks,
    further_period,
)
from offpeak.sim_backend.replay.policy import Policy

SLEEP_FIGURES = (
    *("idle_saved_pct", "captured_pct", "asleep_share", "cycles_per_node_day"),
    *("delayed_share", "mean_sleep_delay_s", "above_sla_share"),
)
"""The fields of an Outcome that are about nodes that sleep, in the order of their table."""
FIGURES = (
    *("cost", "saving_pct", "energy_kwh", "co2_kg", "utilization", "mean_wait_s"),
    *("mean_bounded_slowdown", "mean_bounded_slowdown_by_delay", "worst_postponement_s", "response_ratio"),
    *SLEEP_FIGURES,
    *("cooling_kwh", "cooling_cost", "pue", "cooled_saving_pct"),
    *("peak_kw", "bill", "bill_saving_pct", "held_wait_s"),
)
"""The fields of an Outcome that are given with their interval, where they have a value."""

WITHIN_PERCENTILES = (2.5, 97.5)
"""An interval holds 19 of 20 replays."""
FEW_REPLAYS = 10
"""The percentiles of fewer values lie too near together."""
RANKED = 39
"""So many values have a least and a largest one that hold 19 of 20 further values, however they are distributed."""
LARGEST_SHIFT_S = 60


@dataclass(frozen=True)
class ReplicationInterval:
    """The mean of a figure over the replays, and the range that 19 of 20 of them lie in."""

    mean: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The figure that is quoted."""
        return self.mean

    @property
    def has_either_sign(self) -> bool:
        """Whether the range holds 0."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class AlignmentInterval(ReplicationInterval):
    """A figure over replays on several weeks of the prices: its median is quoted, and the range is that of weeks to
    come: it holds a week that is not among them 19 times of 20.
    """

    median: float

    @property
    def middle(self) -> float:
        """The figure that is quoted."""
        return self.median


@dataclass(frozen=True)
class ReplicationSpread:
    """The figures of one policy over all replays, and how far each is above the baseline's in the same replay.

    `alignments` is on how many weeks of the prices the replays laid the log: 1 unless the week is drawn.
    `partition_wait_s` is the mean wait in each partition, `partition_wait_change_s` how much longer it is than under
    the baseline; {} for a log of one partition. `further` says how far the saving of a further period may be from that
    of the replays.
    """

    policy: str
    replays: int
    figures: Mapping[str, ReplicationInterval]
    differences: Mapping[str, ReplicationInterval]
    alignments: int = 1
    partition_wait_s: Mapping[str, ReplicationInterval] = field(default_factory=dict)
    partition_wait_change_s: Mapping[str, ReplicationInterval] = field(default_factory=dict)
    further: FurtherPeriod = NOTHING_KNOWN

    def is_noise(self, figure: str) -> bool:
        """Tell whether the difference to the baseline has either sign within the interval: chance alone could do it."""
        return self.differences[figure].has_either_sign


def without_demand(outcomes: Sequence[Sequence[PolicyOutcome]]) -> list[list[PolicyOutcome]]:
    """Return the outcomes without the figures of demand charges: savings are those of energy."""
    return [[replace(each, peak_kw=None, bill=None, bill_saving_pct=None) for each in replay] for replay in outcomes]


def spreads_of(
    outcomes: Sequence[Sequence[PolicyOutcome]], weeks: AlignmentWeeks | None = None
) -> tuple[ReplicationSpread, ...]:
    """Return a spread a policy; `outcomes` holds for each replay the outcomes of all policies.

    `weeks` are those from which the case of the replays drew.
    """
    alignments = min(len(outcomes), len(weeks.offsets_s)) if weeks else 1
    return tuple(_spread(of_policy, alignments) for of_policy in zip(*outcomes, strict=True))


def _spread(outcomes: Sequence[PolicyOutcome], alignments: int) -> ReplicationSpread:
    def interval(values: Float64, name: str = "") -> ReplicationInterval:
        is_money = name.endswith(("cost", "bill"))
        return interval_of(values) if alignments == 1 else alignment_interval_of(values, by_factors=is_money)

    names = [name for name in FIGURES if all(getattr(each, name) is not None for each in outcomes)]
    own = {name: np.array([getattr(outcome, name) for outcome in outcomes], float) for name in names}
    baseline = [outcome.baseline or outcome for outcome in outcomes]
    first = {name: np.array([getattr(outcome, name) for outcome in baseline], float) for name in names}
    waits_s, first_s = (
        {name: np.array([outcome.partition_wait_s[name] for outcome in each]) for name in outcomes[0].partition_wait_s}
        for each in (outcomes, baseline)
    )
    weeks = [outcome.weeks for outcome in outcomes if outcome.weeks is not None]
    if "bill" in own:
        # Demand charges count as the same in each week.
        now, then = own["bill"] - own["cost"], first["bill"] - first["cost"]
        weeks = [
            ReplayedWeeks(
                week.cost + charge / max(len(week.cost), 1), week.baseline + before / max(len(week.baseline), 1)
            )
            for week, charge, before in zip(weeks, now, then, strict=True)
        ]
        further = further_period(weeks, own["bill_saving_pct"], first["bill"] - own["bill"])
    else:
        further = further_period(weeks, own["saving_pct"], first["cost"] - own["cost"])
    return ReplicationSpread(
        policy=outcomes[0].policy,
        replays=len(outcomes),
        figures={name: _within_bounds(name, interval(own[name], name)) for name in names},
        differences={name: interval(own[name] - first[name], name) for name in names},
        alignments=alignments,
        partition_wait_s={name: _within_bounds("wait_s", interval(wait_s)) for name, wait_s in waits_s.items()},
        partition_wait_change_s={name: interval(wait_s - first_s[name]) for name, wait_s in waits_s.items()},
        further=further,
    )


def _within_bounds(name: str, interval: ReplicationInterval) -> ReplicationInterval:
    """Return the interval, from 0 on if the figure is none that can be negative."""
    return interval if name.endswith(("cost", "bill", "_pct")) else replace(interval, low=max(interval.low, 0.0))


def interval_of(values: Float64) -> ReplicationInterval:
    """Return the mean of a figure over the replays, and its percentiles; of a few replays Student's range."""
    mean = float(values.mean())
    if 2 <= len(values) < FEW_REPLAYS:
        half = _student_half(values)
        return ReplicationInterval(mean, mean - half, mean + half)
    low, high = np.percentile(values, WITHIN_PERCENTILES)
    return ReplicationInterval(mean, float(low), float(high))


def alignment_interval_of(values: Float64, *, by_factors: bool = False) -> AlignmentInterval:
    """Return mean and median of a figure, and the range in which one more value lies 19 times of 20.

    The percentiles of a few values lie too near together for that: their range is Student's. It is that of the
    logarithms for values of one sign that differ `by_factors`, as money does with the prices of years.
    """
    count, mean = len(values), float(values.mean())
    if by_factors and (values.min() > 0 or values.max() < 0):
        sign = np.sign(mean)
        logs = alignment_interval_of(np.log(np.abs(values)))
        low, high = sorted((float(sign * np.exp(logs.low)), float(sign * np.exp(logs.high))))
    elif count >= RANKED:
        low, high = (float(bound) for bound in np.percentile(values, WITHIN_PERCENTILES, method="weibull"))
    else:
        half = _student_half(values)
        low, high = mean - half, mean + half
    return AlignmentInterval(mean, low, high, float(np.median(values)))


def _student_half(values: Float64) -> float:
    """Return half the width of the range in which one more value lies 19 times of 20."""
    count = len(values)
    student = STUDENT_95[min(count - 2, len(STUDENT_95) - 1)]
    return float(student * (values.std(ddof=1) if np.ptp(values) else 0.0) * np.sqrt(1 + 1 / count))


DrawPower = Callable[[Generator], Float64]
"""Draws the jobs' power per unit [W] again, in the order of the case's jobs."""

PoliciesAt = Callable[[ReplayCase], tuple[Policy, ...]]
"""Makes the policies for a case on another week: those that know the prices of every hour know other prices then."""


def replay_often(
    case: ReplayCase,
    policies: tuple[Policy, ...],
    *,
    replays: int,
    seed: int,
    policies_at: PoliciesAt | None = None,
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor = THREADS,
) -> tuple[ReplicationSpread, ...]:
    """Return each policy's figures over that many replays, with every submit time 0 to 60 s later than in the log."""
    outcomes = replay_each(
        case, policies, range(replays), seed=seed, policies_at=policies_at, progress=progress, executor=executor
    )
    return spreads_of(outcomes, case.prices.aligned.weeks)


def replay_each(
    case: ReplayCase,
    policies: tuple[Policy, ...],
    numbers: range,
    *,
    seed: int,
    draw_power: DrawPower | None = None,
    policies_at: PoliciesAt | None = None,
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor = THREADS,
) -> list[tuple[PolicyOutcome, ...]]:
    """Return the outcomes of all policies in the replays of these numbers, in their order.

    With `draw_power` the jobs' draws, too, differ from replay to replay. Replay number i has the seed (seed, i), so
    that its result depends neither on the others nor on where the `executor` runs it.
    Where the week of the prices is a choice, each replay lays the log on another one, the same for all policies.
    `progress` gets the number of finished replays, including those before the first of the numbers.
    """
    weeks = case.prices.aligned.weeks
    outcomes: dict[int, tuple[PolicyOutcome, ...]] = {}

    def run(number: int) -> tuple[PolicyOutcome, ...]:
        at = case.aligned(weeks.draw(number, seed)) if weeks else case
        chosen = policies_at(at) if weeks and policies_at else policies
        moved = shifted(at, np.random.default_rng([seed, number]), draw_power)
        comparison = compare(moved, chosen, check_interrupt)
        costs = {}
        for run in {id(run): run for run in (*comparison.runs, *comparison.baselines)}.values():
            curve = curve_of_run(run.usage, run.sleep) if run.sleep else None
            submit_s = run.schedule.by_run(comparison.case.jobs.submit_s)
            price = meters_of(comparison.case, run.usage.until_s).price
            costs[id(run)] = costs_of_weeks(run.usage, submit_s, price, curve)
        return tuple(
            replace(outcome, weeks=ReplayedWeeks(costs[id(run)], costs[id(baseline)]))
            for outcome, run, baseline in zip(comparison.outcomes, comparison.runs, comparison.baselines, strict=True)
        )

    def done(number: int, outcome: tuple[PolicyOutcome, ...]) -> None:
        outcomes[number] = outcome
        progress(numbers.start + len(outcomes))

    executor.run(run, numbers, done)
    return [outcomes[number] for number in numbers]


def shifted(case: ReplayCase, rng: Generator, draw_power: DrawPower | None = None) -> ReplayCase:
    """Return the case with each job submitted 0 to 60 s later, jobs in their new order."""
    submit_s = case.jobs.submit_s + rng.integers(0, LARGEST_SHIFT_S, len(case.jobs), endpoint=True)
    node_power_w = draw_power(rng) if draw_power else case.node_power_w
    order = np.argsort(submit_s, kind="stable")
    jobs = replace(case.jobs, submit_s=submit_s).take(order)
    return replace(case, jobs=jobs, node_power_w=node_power_w[order])
