"""How far a policy's figures move when the same log is replayed with slightly other submit times.

Replays are chaotic: a job submitted half a minute later can lead to another schedule of everything behind it. So one
replay says little about a small difference between policies. Twenty, each with its own small shifts, tell how much of
it is chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.outcome import Outcome

FIGURES = (
    "cost",
    "saving_pct",
    "energy_kwh",
    "co2_kg",
    "utilization",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "mean_bounded_slowdown_by_delay",
    "worst_postponement_s",
    "response_ratio",
    "idle_saved_pct",
    "captured_pct",
    "asleep_share",
    "cycles_per_node_day",
    "delayed_share",
    "mean_sleep_delay_s",
    "above_sla_share",
    "cooling_kwh",
    "cooling_cost",
    "pue",
    "cooled_saving_pct",
)
"""The fields of an Outcome that are given with their interval, where they have a value."""

WITHIN_PERCENTILES = (2.5, 97.5)
"""An interval holds 19 of 20 replays."""


@dataclass(frozen=True)
class Interval:
    """The mean of a figure over the replays, and the range that 19 of 20 of them lie in."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """The figures of one policy over all replays, and how far each is above the baseline's in the same replay."""

    policy: str
    replays: int
    figures: Mapping[str, Interval]
    differences: Mapping[str, Interval]

    def is_noise(self, figure: str) -> bool:
        """Say whether the difference to the baseline has either sign within the interval: chance alone could do it."""
        difference = self.differences[figure]
        return difference.low <= 0 <= difference.high


def spreads_of(outcomes: Sequence[Sequence[Outcome]]) -> tuple[Spread, ...]:
    """Return a spread a policy; `outcomes` holds for each replay the outcomes of all policies, the baseline first."""
    return tuple(_spread(of_policy, [each[0] for each in outcomes]) for of_policy in zip(*outcomes, strict=True))


def _spread(outcomes: Sequence[Outcome], baseline: Sequence[Outcome]) -> Spread:
    names = [name for name in FIGURES if getattr(outcomes[0], name) is not None]
    own = {name: np.array([getattr(outcome, name) for outcome in outcomes], float) for name in names}
    first = {name: np.array([getattr(outcome, name) for outcome in baseline], float) for name in names}
    return Spread(
        policy=outcomes[0].policy,
        replays=len(outcomes),
        figures={name: _interval(own[name]) for name in names},
        differences={name: _interval(own[name] - first[name]) for name in names},
    )


def _interval(values: Float64) -> Interval:
    low, high = np.percentile(values, WITHIN_PERCENTILES)
    return Interval(float(values.mean()), float(low), float(high))
