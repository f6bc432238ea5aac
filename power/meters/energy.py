"""Energy from readings: the integral of power, the counters of the meters, and the comparison of the meters of one
node.

Each value of power holds until the next reading, at most `longest_hold_s`. A longer time is a gap, which is
reported and never filled. A reading without a value ends what the one before held and begins a gap. Nothing is
known before the first reading and after the last.

Counters cross-check the integral. A counter of a PDU can be reset by hand, is reset by some firmwares, and belongs
to another PDU after an exchange. A number that is less than the one before is therefore a reset, never a wrap.

A node may be measured at its outlet, by its BMC and in its processors. The differences are losses and other
consumers, or show a wrong unit or a wrong outlet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offpeak.model.constants import J_PER_KWH
from power.meters.port import MeterResult, Reading


@dataclass(frozen=True)
class Energy:
    """The energy of one part of a meter, and how much of the time it is known for: covered and gaps are all of it.

    `rounding_j` is what rounding to the meter's steps can explain, either way. The `last_` reading is not counted yet.
    """

    energy_j: float = 0.0
    covered_s: float = 0.0
    gap_s: float = 0.0
    readings: int = 0
    rounding_j: float = 0.0
    last_at_unix_s: float | None = None
    last_w: float | None = None
    last_resolution_w: float = 0.0

    @property
    def mean_w(self) -> float | None:
        """The mean power while it is known, None if it never is."""
        return self.energy_j / self.covered_s if self.covered_s else None

    @property
    def rounding_share(self) -> float:
        """How much of the energy may be rounding, 0 to 1; 1 where there is none."""
        return min(1.0, self.rounding_j / self.energy_j) if self.energy_j else 1.0


def add_reading(so_far: Energy, reading: Reading, *, longest_hold_s: float) -> Energy:
    """Return the energy after one more reading; one that is not later than the last is left out."""
    at_unix_s = reading.at_unix_s
    if so_far.last_at_unix_s is not None and at_unix_s <= so_far.last_at_unix_s:
        return so_far
    known = _extend_until(so_far, at_unix_s, longest_hold_s)
    return Energy(
        energy_j=known.energy_j,
        covered_s=known.covered_s,
        gap_s=known.gap_s,
        readings=so_far.readings + (reading.power_w is not None),
        rounding_j=known.rounding_j,
        last_at_unix_s=at_unix_s,
        last_w=reading.power_w,
        last_resolution_w=reading.resolution_w,
    )


def _extend_until(so_far: Energy, at_unix_s: float, longest_hold_s: float) -> Energy:
    """Return the energy with what the last reading says of the time until then."""
    if so_far.last_at_unix_s is None:
        return so_far
    passed_s = at_unix_s - so_far.last_at_unix_s
    held_s = 0.0 if so_far.last_w is None else min(passed_s, longest_hold_s)
    return Energy(
        so_far.energy_j + (so_far.last_w or 0.0) * held_s,
        so_far.covered_s + held_s,
        so_far.gap_s + passed_s - held_s,
        so_far.readings,
        so_far.rounding_j + so_far.last_resolution_w / 2 * held_s,
    )


COUNTER_TOLERANCE = 0.1
"""Counter and integrated watts agree within this share: meters are exact to some percent, polls miss short peaks."""
COUNTER_TOLERANCE_STEPS = 2.0
"""Or within so many steps of the counter: both looks at it are rounded."""


@dataclass(frozen=True)
class CounterTotal:
    """What was counted [J], how often the counter was reset, and what it said last; None before the first look."""

    energy_j: float = 0.0
    resets: int = 0
    last_j: float | None = None


def add_counter_value(so_far: CounterTotal, energy_j: float | None) -> CounterTotal:
    """Return the count after one more look. Over a reset nothing is added: what was used meanwhile is not known.

    No value (None) is no reset; the next number counts from the one before.
    """
    if energy_j is None:
        return so_far
    if so_far.last_j is None:
        return CounterTotal(so_far.energy_j, so_far.resets, energy_j)
    if energy_j < so_far.last_j:
        return CounterTotal(so_far.energy_j, so_far.resets + 1, energy_j)
    return CounterTotal(so_far.energy_j + energy_j - so_far.last_j, so_far.resets, energy_j)


def find_contradiction(count: CounterTotal, integrated: Energy, *, step_j: float) -> str:
    """Return how a counter contradicts the watts of the same time, "" if it does not or cannot be told.

    `step_j` is one step of the counter. After a reset the counter misses energy, over gaps the watts do: then only the
    other one can be too small.
    """
    bound_j = max(
        COUNTER_TOLERANCE * max(count.energy_j, integrated.energy_j),
        COUNTER_TOLERANCE_STEPS * step_j,
        integrated.rounding_j,
    )
    difference_j = count.energy_j - integrated.energy_j
    if difference_j > bound_j and integrated.gap_s == 0:
        return _contradiction_text(count, integrated)
    if -difference_j > bound_j and count.resets == 0:
        return _contradiction_text(count, integrated)
    return ""


def _contradiction_text(count: CounterTotal, integrated: Energy) -> str:
    kwh, watts_kwh = count.energy_j / J_PER_KWH, integrated.energy_j / J_PER_KWH
    return f"the counter says {kwh:.3g} kWh, the watts of the same time {watts_kwh:.3g} kWh"


METER_ACCURACY = 0.02
"""What is measured further inside may be so much more, by the meters' own errors: PDUs and BMCs state 1 to 2 %."""
TENFOLD = (8.0, 12.5)
"""Two meters of the same power that differ by such a factor differ by a unit: PDUs count in W or in 10 W."""
MIN_COMMON_COVERAGE = 0.9
"""Means are compared where the lesser covers at least this share of the time of the other."""


@dataclass(frozen=True)
class MeasuringPoint:
    """What one way of measuring says of a node: "pdu", "bmc" or "rapl", its mean power, and for how long."""

    way: str
    mean_w: float
    covered_s: float
    resolution_w: float


@dataclass(frozen=True)
class PowerDifference:
    """What is used between an outer and an inner place [W, share of the outer], and what is wrong with that, if so."""

    outer: str
    inner: str
    power_w: float
    share: float
    problem: str = ""


def combine_parts(way: str, parts: Sequence[Energy]) -> MeasuringPoint | None:
    """Return what all parts of one way say together: outlets of a node, packages; None if one of them says nothing."""
    means_w = [part.mean_w for part in parts if part.mean_w is not None]
    if not parts or len(means_w) < len(parts):
        return None
    covered_s = min(part.covered_s for part in parts)
    return MeasuringPoint(way, sum(means_w), covered_s, sum(2 * part.rounding_j / part.covered_s for part in parts))


def compare_points(places: Sequence[MeasuringPoint]) -> tuple[PowerDifference, ...]:
    """Return what lies between each place and the next; they are given from the outlet inwards.

    PDU minus BMC is what the power supplies lose (nothing where the BMC measures at their input), BMC minus RAPL what
    fans, drives, cards and board use.
    """
    return tuple(_difference(outer, inner) for outer, inner in pairwise(places))


def _difference(outer: MeasuringPoint, inner: MeasuringPoint) -> PowerDifference:
    power_w = outer.mean_w - inner.mean_w
    share = power_w / outer.mean_w if outer.mean_w else 0.0
    return PowerDifference(outer.way, inner.way, power_w, share, _difference_problem(outer, inner))


def _difference_problem(outer: MeasuringPoint, inner: MeasuringPoint) -> str:
    shorter_s, longer_s = sorted((outer.covered_s, inner.covered_s))
    if shorter_s < MIN_COMMON_COVERAGE * longer_s:
        return f"not of the same time: {outer.way} covers {outer.covered_s:.0f} s, {inner.way} {inner.covered_s:.0f} s"
    message = f"{outer.way} says {outer.mean_w:.4g} W, {inner.way} {inner.mean_w:.4g} W"
    if _is_tenfold(inner.mean_w, outer.mean_w) or (inner.way != "rapl" and _is_tenfold(outer.mean_w, inner.mean_w)):
        return f"{message}: a factor of ten is a wrong unit; check the PDU's family"
    margin_w = outer.resolution_w + inner.resolution_w + METER_ACCURACY * outer.mean_w
    if inner.mean_w > outer.mean_w + margin_w:
        return f"{message}: less outside than inside; check which node hangs on which outlet"
    return ""


def _is_tenfold(more_w: float, less_w: float) -> bool:
    return less_w > 0 and TENFOLD[0] <= more_w / less_w <= TENFOLD[1]


Part = tuple[str, str, str, str | None]
"""Meter, way, part, and the node whose power it is, None for none."""

POINTS_OUTSIDE_IN = (("pdu", ("snmp",)), ("bmc", ("dcmi", "redfish")), ("rapl", ("rapl",)))
"""Where a node is measured, from its outlets inwards, and the ways of reading that measure there."""


def add_readings(
    so_far: Mapping[Part, Energy], taken: Iterable[MeterResult], *, longest_hold_s: float
) -> dict[Part, Energy]:
    """Return the energies after one more round of readings."""
    sums = dict(so_far)
    for reading in (reading for each in taken for reading in each.readings):
        part = (reading.meter, reading.way, reading.part, reading.node)
        sums[part] = add_reading(sums.get(part, Energy()), reading, longest_hold_s=longest_hold_s)
    return sums


COARSEST_STEP_J = J_PER_KWH
"""Some PDUs count whole kilowatt-hours: what may be their rounding is no contradiction."""


def add_counter_values(so_far: Mapping[Part, CounterTotal], taken: Iterable[MeterResult]) -> dict[Part, CounterTotal]:
    """Return what the meters' own counters have counted after one more round of readings."""
    counts = dict(so_far)
    for reading in (reading for each in taken for reading in each.readings):
        part = (reading.meter, reading.way, reading.part, reading.node)
        counts[part] = add_counter_value(counts.get(part, CounterTotal()), reading.energy_j)
    return counts


def find_contradictions(sums: Mapping[Part, Energy], counts: Mapping[Part, CounterTotal]) -> dict[Part, str]:
    """Return how counters contradict the watts of the same time, for the parts where one does."""
    found = {
        part: find_contradiction(count, sums[part], step_j=COARSEST_STEP_J)
        for part, count in counts.items()
        if count.last_j is not None
    }
    return {part: message for part, message in found.items() if message}


def measured_nodes(sums: Mapping[Part, Energy]) -> tuple[str, ...]:
    """Return the nodes that are measured, in the order in which they were met."""
    return tuple(dict.fromkeys(node for _, _, _, node in sums if node is not None))


def measuring_points_of(sums: Mapping[Part, Energy], node: str) -> tuple[MeasuringPoint, ...]:
    """Return where a node is measured, from its outlets inwards, as far as all parts there have said something."""
    found = []
    for name, ways in POINTS_OUTSIDE_IN:
        parts = [energy for (_, way, _, of), energy in sums.items() if of == node and way in ways]
        found.append(combine_parts(name, parts))
    return tuple(each for each in found if each is not None)


def compare_meters(sums: Mapping[Part, Energy]) -> dict[str, tuple[PowerDifference, ...]]:
    """Return for every node that is measured in two places what lies between them."""
    compared = {node: compare_points(measuring_points_of(sums, node)) for node in measured_nodes(sums)}
    return {node: found for node, found in compared.items() if found}
