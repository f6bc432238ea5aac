"""Watts to energy, one reading at a time: each value holds until the next one, at most `longest_hold_s`.

What is longer is a gap, which is reported and never filled. A reading without a value ends what the one before held and
begins a gap. Nothing is known before the first reading and after the last.
"""

from dataclasses import dataclass

from power.meters.port import Reading


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


def integrated(so_far: Energy, reading: Reading, *, longest_hold_s: float) -> Energy:
    """Return the energy after one more reading; one that is not later than the last is left out."""
    at_unix_s = reading.at_unix_s
    if so_far.last_at_unix_s is not None and at_unix_s <= so_far.last_at_unix_s:
        return so_far
    known = _until(so_far, at_unix_s, longest_hold_s)
    return Energy(
        known.energy_j,
        known.covered_s,
        known.gap_s,
        so_far.readings + (reading.power_w is not None),
        known.rounding_j,
        at_unix_s,
        reading.power_w,
        reading.resolution_w,
    )


def _until(so_far: Energy, at_unix_s: float, longest_hold_s: float) -> Energy:
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
