"""The inputs of a decision on a node: its hardware, the measured durations of such nodes, and the retry policy."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from offpeak.machines.inventory import Hardware
from offpeak.model.constants import HOUR_S
from offpeak.power.lifecycle.node_record import MeasuredDuration
from offpeak.settings.agent import AgentSettings

MOST_DURATIONS = 50
FEWEST_DURATIONS = 5
QUANTILE = 0.95
TIMEOUT_FACTOR = 1.5
LEAST_PATIENCE, MOST_PATIENCE = 0.25, 2.0
"""A time-out is never below or above these shares of the inventory's patience."""


@dataclass(frozen=True)
class MeasuredDurations:
    """The latest durations [s] of each change of one kind of hardware, oldest first."""

    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def learn(self, measured: MeasuredDuration) -> "MeasuredDurations":
        """Return the durations with one more; an invalid one is left out."""
        if not (math.isfinite(measured.seconds) and measured.seconds >= 0):
            return self
        latest = (*self.seconds.get(measured.change, ()), measured.seconds)[-MOST_DURATIONS:]
        return MeasuredDurations({**self.seconds, measured.change: latest})

    def time_out_s(self, change: str, patience_s: float) -> float:
        """Return the time after which a change counts as failed: the inventory's patience until enough durations are
        known.

        Then 1.5 times a high quantile of the durations, within a quarter of the patience and twice the patience.
        """
        known = sorted(self.seconds.get(change, ()))
        if len(known) < FEWEST_DURATIONS:
            return patience_s
        nearly_all_s = known[math.ceil(QUANTILE * len(known)) - 1]
        return min(max(TIMEOUT_FACTOR * nearly_all_s, LEAST_PATIENCE * patience_s), MOST_PATIENCE * patience_s)

    def expected_s(self, change: str) -> float | None:
        """Return the typical duration of such a change, None if none was observed."""
        known = self.seconds.get(change)
        return median(known) if known else None

    def to_json(self) -> dict[str, list[float]]:
        """Return the durations in the format of `durations_from_json`."""
        return {change: list(seconds) for change, seconds in self.seconds.items()}


def durations_from_json(stored: Mapping[str, list[float]]) -> MeasuredDurations:
    """Return the durations from the output of `MeasuredDurations.to_json`."""
    return MeasuredDurations({change: tuple(seconds[-MOST_DURATIONS:]) for change, seconds in stored.items()})


NO_DURATIONS = MeasuredDurations()


@dataclass(frozen=True)
class RetryPolicy:
    """How persistent to be with a node, which is polled every `cycle_s`.

    After `tries` failures in a row, with pauses that double from `first_pause_s`, the node is at fault and waits for
    the operator; a fault of the BMC's connection is tried again after `ours_again_s`. After a change that no order
    explains, the node gets no order for `pause_after_change_s`; `surprises` of them within `surprises_within_s` are a
    fault, as is a state that is unknown for `unseen_s`. A change may follow its order by up to `late_s`. `cut_power`
    allows hard_off where the node did not follow soft_off.
    """

    tries: int = 3
    first_pause_s: float = 60.0
    longest_pause_s: float = HOUR_S
    refused_pause_s: float = 30.0
    longest_refused_pause_s: float = 600.0
    ours_again_s: float = HOUR_S
    pause_after_change_s: float = 1800.0
    surprises: int = 3
    surprises_within_s: float = HOUR_S
    unseen_s: float = 900.0
    late_s: float = HOUR_S
    cut_power: bool = False
    cycle_s: float = 30.0


@dataclass(frozen=True)
class NodeContext:
    """Hardware, measured durations and retry policy of a node. `chance` spreads pauses of nodes that fail at once."""

    hardware: Hardware
    chance: random.Random
    times: MeasuredDurations = NO_DURATIONS
    retry: RetryPolicy = RetryPolicy()

    def spread(self, pause_s: float) -> float:
        """Return the pause, up to a quarter shorter or longer."""
        return pause_s * (0.75 + 0.5 * self.chance.random())


def make_retry_policy(settings: AgentSettings) -> RetryPolicy:
    """Return the retry policy of the settings."""
    return RetryPolicy(
        tries=settings.tries,
        pause_after_change_s=settings.hands_off_s,
        cut_power=settings.cut_power,
        cycle_s=settings.cycle_s,
    )
