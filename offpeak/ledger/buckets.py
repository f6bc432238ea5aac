"""Readings cut at full minutes, and what they add to the means of minutes and quarter-hours."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offpeak.ledger.rows import Metered

MINUTE_S = 60
QUARTER_S = 900


@dataclass(frozen=True)
class Piece:
    """The part of a reading that lies within one minute."""

    series: int
    from_unix_s: float
    until_unix_s: float
    power_w: float | None
    energy_j: float | None
    why: str | None

    def start_of(self, length_s: int) -> int:
        """Return when the bucket of that length begins in which the piece lies [Unix s]."""
        return math.floor(self.from_unix_s / length_s) * length_s


@dataclass
class Mean:
    """What the readings of one bucket say together."""

    covered_s: float = 0.0
    energy_j: float = 0.0
    min_w: float | None = None
    max_w: float | None = None
    without_value: int = 0

    def add(self, piece: Piece) -> None:
        """Take one more piece in."""
        if piece.power_w is None:
            self.without_value += 1
            return
        self.covered_s += piece.until_unix_s - piece.from_unix_s
        self.energy_j += piece.energy_j or 0.0
        self.min_w = piece.power_w if self.min_w is None else min(self.min_w, piece.power_w)
        self.max_w = piece.power_w if self.max_w is None else max(self.max_w, piece.power_w)


def pieces(reading: Metered, series: int) -> Iterator[Piece]:
    """Cut a reading at full minutes; the energy is shared by the time. One without a value, or time, is one piece."""
    length_s = reading.until_unix_s - reading.from_unix_s
    if reading.power_w is None or length_s <= 0:
        at_unix_s = reading.until_unix_s
        yield Piece(series, at_unix_s, at_unix_s, reading.power_w, None, reading.why or None)
        return
    energy_j = reading.power_w * length_s if reading.energy_j is None else reading.energy_j
    for from_unix_s, until_unix_s in _within_minutes(reading.from_unix_s, reading.until_unix_s):
        share_j = energy_j * ((until_unix_s - from_unix_s) / length_s)
        yield Piece(series, from_unix_s, until_unix_s, reading.power_w, share_j, reading.why or None)


def _within_minutes(from_unix_s: float, until_unix_s: float) -> Iterator[tuple[float, float]]:
    while from_unix_s < until_unix_s:
        edge_unix_s = min(until_unix_s, (math.floor(from_unix_s / MINUTE_S) + 1.0) * MINUTE_S)
        yield from_unix_s, edge_unix_s
        from_unix_s = edge_unix_s


def means(cut: Iterable[Piece], length_s: int) -> dict[tuple[int, int], Mean]:
    """Return what the pieces add to each bucket, by its start [Unix s] and series."""
    found: dict[tuple[int, int], Mean] = {}
    for piece in cut:
        key = (piece.start_of(length_s), piece.series)
        found.setdefault(key, Mean()).add(piece)
    return found
