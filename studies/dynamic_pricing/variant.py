"""A line of a table: one setup and one bill, and the changes that lead from one line to another."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from studies.dynamic_pricing.experiment import Bill, Experiment, Setup


@dataclass(frozen=True)
class Variant:
    """What a figure is a mean of: replays of the whole log or, `months_apart`, of each of its months by itself."""

    setup: Setup = field(default_factory=Setup)
    bill: Bill = field(default_factory=Bill)
    months_apart: bool = False


@dataclass(frozen=True)
class Change:
    """One assumption that is made otherwise: fields of the setup or the bill, or the months taken apart."""

    what: str
    how: str
    setup: Mapping[str, Any] = field(default_factory=dict)
    bill: Mapping[str, Any] = field(default_factory=dict)
    months_apart: bool = False

    def of(self, variant: Variant) -> Variant:
        """Return the variant with this change."""
        return Variant(
            replace(variant.setup, **self.setup),
            replace(variant.bill, **self.bill),
            self.months_apart or variant.months_apart,
        )


@dataclass(frozen=True)
class Replays:
    """How often each variant is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(variant: Variant, log: str, months: int, replays: Replays) -> list[tuple[Experiment, ...]]:
    """Return for each replay the experiments whose figures are averaged: one, or one a month."""
    stretches = range(months) if variant.months_apart else (variant.setup.month,)
    setups = [replace(variant.setup, month=month) for month in stretches]
    return [tuple(Experiment(log, replays.seed, replay, setup) for setup in setups) for replay in range(replays.count)]
