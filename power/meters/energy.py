"""Energy from readings: the integral of power, the counters of the meters, and the comparison of the meters of one
node.

A power value holds until the next reading, for at most `longest_hold_s`. A longer time is a gap, which is reported and
never filled. A reading without a value starts a gap, too. Power is unknown before the first reading and after the last.

Counters cross-check the integral. A counter of a PDU can be reset by hand or by firmware, or starts again when the PDU
is replaced. A lower number than before is therefore a reset, never a wrap.

A node may be measured at its outlet, by its BMC and in its processors. The differences are losses and other consumers,
or reveal a wrong unit or a wrong outlet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offpeak.model.constants import J_PER_KWH
from offpeak.power.meters.port import MeterResult, Reading

COUNTER_TOLERANCE = 0.1
"""Counter and integrated watts agree within this share: meters are exact to some percent, polls miss short peaks."""
COUNTER_TOLERANCE_STEPS = 2.0
"""Or within so many steps of the counter: both readings of it are rounded."""

METER_ACCURACY = 0.02
"""An inner meter may show so much more than an outer one by the meters' errors: PDUs and BMCs state 1 to 2 %."""
TENFOLD = (8.0, 12.5)
"""Two meters of the same power that differ by such a factor use different units: PDUs count in W or in 10 W."""
MIN_COMMON_COVERAGE = 0.9
"""Means are compared if the shorter covered time is at least this share of the longer one."""

Part = tuple[str, str, str, str | None]
"""Meter, way, part, and the node that the part feeds, if it is one."""

POINTS_OUTSIDE_IN = (("pdu", ("snmp",)), ("bmc", ("dcmi", "redfish")), ("rapl", ("rapl",)))
"""The measuring points of a node from its outlets inwards, and the ways of reading at each."""

COARSEST_STEP_J = J_PER_KWH
"""Some PDUs count whole kilowatt-hours: a difference within their rounding is no contradiction."""


@dataclass(frozen=True)
class Energy:
    """The energy of one part of a meter, and the time for which it is known: covered time plus gaps is the whole time.

    `rounding_j` is the possible error from rounding to the meter's steps, in either direction. The `last_` reading is
    not counted yet.
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
        """The mean power over the covered time, None if there is none."""
        return self.energy_j / self.covered_s if self.covered_s else None


def add_reading(so_far: Energy, reading: Reading, *, longest_hold_s: float) -> Energy:
    """Return the energy after one more reading; a reading that is not later than the last one is ignored."""
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
    """Return the energy with the last reading extended until that time."""
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


@dataclass(frozen=True)
class CounterTotal:
    """The counted energy [J], the number of resets, and the counter's last value; None before the first reading."""

    energy_j: float = 0.0
    resets: int = 0
    last_j: float | None = None


def add_counter_value(so_far: CounterTotal, energy_j: float | None) -> CounterTotal:
    """Return the count after one more reading. A reset adds nothing: the energy used meanwhile is unknown.

    No value (None) is not a reset; the next number is compared with the last known one.
    """
    if energy_j is None:
        return so_far
    if so_far.last_j is None:
        return CounterTotal(so_far.energy_j, so_far.resets, energy_j)
    if energy_j < so_far.last_j:
        return CounterTotal(so_far.energy_j, so_far.resets + 1, energy_j)
    return CounterTotal(so_far.energy_j + energy_j - so_far.last_j, so_far.resets, energy_j)


def find_contradiction(count: CounterTotal, integrated: Energy, *, step_j: float) -> str:
    """Return how a counter contradicts the integrated power of the same time, "" if it does not or this is unknown.

    `step_j` is one step of the counter. After a reset the counter lacks energy, after a gap the integral does: then
    only the other one can be too small.
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
    return f"the counter shows {kwh:.3g} kWh, the integrated power {watts_kwh:.3g} kWh"


@dataclass(frozen=True)
class MeasuringPoint:
    """A node's mean power at one measuring point ("pdu", "bmc" or "rapl"), and the time it covers."""

    way: str
    mean_w: float
    covered_s: float
    resolution_w: float


@dataclass(frozen=True)
class PowerDifference:
    """The power between an outer and an inner measuring point [W, share of the outer], and its problem, if any."""

    outer: str
    inner: str
    power_w: float
    share: float
    problem: str = ""


def combine_parts(way: str, parts: Sequence[Energy]) -> MeasuringPoint | None:
    """Return the sum of all parts (outlets of a node, processor packages); None if one of them has no value."""
    means_w = [part.mean_w for part in parts if part.mean_w is not None]
    if not parts or len(means_w) < len(parts):
        return None
    covered_s = min(part.covered_s for part in parts)
    return MeasuringPoint(way, sum(means_w), covered_s, sum(2 * part.rounding_j / part.covered_s for part in parts))


def compare_points(places: Sequence[MeasuringPoint]) -> tuple[PowerDifference, ...]:
    """Return the difference between each measuring point and the next, in order from the outlet inwards.

    PDU minus BMC is the loss of the power supplies (nothing if the BMC measures at their input), BMC minus RAPL the
    consumption of fans, drives, cards and board.
    """
    return tuple(_difference(outer, inner) for outer, inner in pairwise(places))


def _difference(outer: MeasuringPoint, inner: MeasuringPoint) -> PowerDifference:
    power_w = outer.mean_w - inner.mean_w
    share = power_w / outer.mean_w if outer.mean_w else 0.0
    return PowerDifference(outer.way, inner.way, power_w, share, _difference_problem(outer, inner))


def _difference_problem(outer: MeasuringPoint, inner: MeasuringPoint) -> str:
    shorter_s, longer_s = sorted((outer.covered_s, inner.covered_s))
    if shorter_s < MIN_COMMON_COVERAGE * longer_s:
        return f"not at the same time: {outer.way} covers {outer.covered_s:.0f} s, {inner.way} {inner.covered_s:.0f} s"
    message = f"{outer.way} shows {outer.mean_w:.4g} W, {inner.way} {inner.mean_w:.4g} W"
    if _is_tenfold(inner.mean_w, outer.mean_w) or (inner.way != "rapl" and _is_tenfold(outer.mean_w, inner.mean_w)):
        return f"{message}: a factor of ten means a wrong unit; check the PDU's family"
    margin_w = outer.resolution_w + inner.resolution_w + METER_ACCURACY * outer.mean_w
    if inner.mean_w > outer.mean_w + margin_w:
        return f"{message}: less outside than inside; check which node is on which outlet"
    return ""


def _is_tenfold(more_w: float, less_w: float) -> bool:
    return less_w > 0 and TENFOLD[0] <= more_w / less_w <= TENFOLD[1]


def part_of(reading: Reading) -> Part:
    """Return the part that a reading is of."""
    return reading.meter, reading.way, reading.part, reading.node


def add_readings(
    so_far: Mapping[Part, Energy], taken: Iterable[MeterResult], *, longest_hold_s: float
) -> dict[Part, Energy]:
    """Return the energies after one more round of readings."""
    sums = dict(so_far)
    for reading in (reading for result in taken for reading in result.readings):
        part = part_of(reading)
        sums[part] = add_reading(sums.get(part, Energy()), reading, longest_hold_s=longest_hold_s)
    return sums


def add_counter_values(so_far: Mapping[Part, CounterTotal], taken: Iterable[MeterResult]) -> dict[Part, CounterTotal]:
    """Return the totals of the meters' own counters after one more round of readings."""
    counts = dict(so_far)
    for reading in (reading for result in taken for reading in result.readings):
        part = part_of(reading)
        counts[part] = add_counter_value(counts.get(part, CounterTotal()), reading.energy_j)
    return counts


def find_contradictions(sums: Mapping[Part, Energy], counts: Mapping[Part, CounterTotal]) -> dict[Part, str]:
    """Return the contradictions between counters and integrated power, by part."""
    found = {
        part: find_contradiction(count, sums[part], step_j=COARSEST_STEP_J)
        for part, count in counts.items()
        if count.last_j is not None
    }
    return {part: message for part, message in found.items() if message}


def measuring_points_of(sums: Mapping[Part, Energy], node: str) -> tuple[MeasuringPoint, ...]:
    """Return the measuring points of a node from its outlets inwards, without those where a part has no value."""
    found = []
    for name, ways in POINTS_OUTSIDE_IN:
        parts = [energy for (_, way, _, of), energy in sums.items() if of == node and way in ways]
        found.append(combine_parts(name, parts))
    return tuple(point for point in found if point is not None)


def compare_meters(sums: Mapping[Part, Energy]) -> dict[str, tuple[PowerDifference, ...]]:
    """Return the power between measuring points for every node that has at least two."""
    nodes = dict.fromkeys(node for _, _, _, node in sums if node is not None)
    compared = {node: compare_points(measuring_points_of(sums, node)) for node in nodes}
    return {node: found for node, found in compared.items() if found}
