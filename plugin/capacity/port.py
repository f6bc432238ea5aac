"""A capacity policy as a value (name, rules, external decision if any) and the fleet that it is made for."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.snapshot import Snapshot, no_rows
from offpeak.plugin.capacity.rules import NEVER, CapacityRules, CapacitySchedule


@dataclass(frozen=True)
class CapacityTargets:
    """The number of nodes to keep awake, the idle ones among them, and the reason."""

    awake: int
    reserve: int = 0
    why: str = ""


class TargetFunction(Protocol):
    """Computes the targets from a snapshot of the cluster."""

    def __call__(self, snapshot: Snapshot, /) -> CapacityTargets:
        """Return the targets that hold from now on."""


@dataclass(frozen=True)
class CapacityPolicy:
    """A policy. Its `decide`, if any, is called every `rules.period_s`.

    In a replay its snapshots have the run times that the agent would predict, or, `by_limits`, the jobs' time limits.
    """

    name: str
    rules: CapacityRules
    schedule: CapacitySchedule
    decide: TargetFunction | None = None
    by_limits: bool = False

    def targets(self, awake: int, reserve: int = 0) -> CapacityTargets:
        """Return targets whose reason is the policy itself."""
        return CapacityTargets(awake, reserve)

    @property
    def keeps_all_awake(self) -> bool:
        """Whether no node can ever sleep."""
        return bool((self.schedule.after_s == NEVER).all())

    @property
    def limits_nodes(self) -> bool:
        """Whether it decides which nodes are for jobs, and not only which idle nodes sleep."""
        return (not self.rules.on_demand or self.rules.plan_s > 0) and not self.keeps_all_awake


def no_prices() -> Float64:
    """Return no prices."""
    return np.empty(0)


class TypeShare(NamedTuple):
    """The nodes of a type among those of all types: numbers `begin` to `end` of `total`, the largest types first."""

    begin: int
    end: int
    total: int

    def of(self, count: int) -> int:
        """Return the type's part of a count for all types: the parts add up, and large types get the odd nodes."""
        before, after = (-(-count * border // self.total) for border in (self.begin, self.end))
        return after - before


@dataclass(frozen=True, eq=False)
class Fleet:
    """Nodes of one class, their load, and the price of electricity where it is known.

    If they are one of several types, `share` is theirs of all nodes: the settings' counts are those of all types.
    `load`: the share of all units that jobs use on average, 0..1. `price_per_mwh[i]` holds from `price_at_s[i]` on, in
    trace seconds, NaN if it is not known.
    """

    nodes: int
    units_per_node: int
    node_class: NodeClass
    load: float = 0.0
    price_at_s: Int64 = field(default_factory=no_rows)
    price_per_mwh: Float64 = field(default_factory=no_prices)
    share: TypeShare | None = None

    @staticmethod
    def mean_load(used_unit_s: float, units: int, span_s: float) -> float:
        """Return the share of the units that jobs used over a span, 0..1."""
        return min(1.0, used_unit_s / (units * span_s))

    def part_of(self, count: int) -> int:
        """Return the part of these nodes in a count for all types, at most all of them."""
        return count if self.share is None else min(self.share.of(count), self.nodes)
