"""The same node measured at its outlet, by its BMC and in its processors: what lies between, and what cannot be."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from power.meters.integrate import Energy

ACCURACY = 0.02
"""What is measured further inside may be so much more, by the meters' own errors: PDUs and BMCs state 1 to 2 %."""
TEN = (8.0, 12.5)
"""Two meters of the same power that differ by such a factor differ by a unit: PDUs count in W or in 10 W."""
SAME_TIME = 0.9
"""Means are compared where the lesser covers at least this share of the time of the other."""


@dataclass(frozen=True)
class Place:
    """What one way of measuring says of a node: "pdu", "bmc" or "rapl", its mean power, and for how long."""

    way: str
    mean_w: float
    covered_s: float
    resolution_w: float


@dataclass(frozen=True)
class Between:
    """What is used between an outer and an inner place [W, share of the outer], and what is wrong with that, if so."""

    outer: str
    inner: str
    power_w: float
    share: float
    trouble: str = ""


def place(way: str, parts: Sequence[Energy]) -> Place | None:
    """Return what all parts of one way say together: outlets of a node, packages; None if one of them says nothing."""
    means_w = [part.mean_w for part in parts if part.mean_w is not None]
    if not parts or len(means_w) < len(parts):
        return None
    covered_s = min(part.covered_s for part in parts)
    return Place(way, sum(means_w), covered_s, sum(2 * part.rounding_j / part.covered_s for part in parts))


def reconcile(places: Sequence[Place]) -> tuple[Between, ...]:
    """Return what lies between each place and the next; they are given from the outlet inwards.

    PDU minus BMC is what the power supplies lose (nothing where the BMC measures at their input), BMC minus RAPL what
    fans, drives, cards and board use.
    """
    return tuple(_between(outer, inner) for outer, inner in pairwise(places))


def _between(outer: Place, inner: Place) -> Between:
    power_w = outer.mean_w - inner.mean_w
    share = power_w / outer.mean_w if outer.mean_w else 0.0
    return Between(outer.way, inner.way, power_w, share, _trouble(outer, inner))


def _trouble(outer: Place, inner: Place) -> str:
    shorter_s, longer_s = sorted((outer.covered_s, inner.covered_s))
    if shorter_s < SAME_TIME * longer_s:
        return f"not of the same time: {outer.way} covers {outer.covered_s:.0f} s, {inner.way} {inner.covered_s:.0f} s"
    said = f"{outer.way} says {outer.mean_w:.4g} W, {inner.way} {inner.mean_w:.4g} W"
    if _by_ten(inner.mean_w, outer.mean_w) or (inner.way != "rapl" and _by_ten(outer.mean_w, inner.mean_w)):
        return f"{said}: a factor of ten is a wrong unit; check the PDU's family"
    margin_w = outer.resolution_w + inner.resolution_w + ACCURACY * outer.mean_w
    if inner.mean_w > outer.mean_w + margin_w:
        return f"{said}: less outside than inside; check which node hangs on which outlet"
    return ""


def _by_ten(more_w: float, less_w: float) -> bool:
    return less_w > 0 and TEN[0] <= more_w / less_w <= TEN[1]
