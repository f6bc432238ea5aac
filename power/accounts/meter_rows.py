"""Readings into rows of the ledger: what each part of a meter used between two readings, and where that is not known.

A value holds until the next one, at most `longest_hold_s`; RAPL's is the mean since the reading before. What is longer
is a gap, a row without a value that says why. Where the clock went back, that part begins anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from offpeak.ledger.rows import MeterReading
from power.meters.energy import Part
from power.meters.port import MeterResult, Reading

Last = Mapping[Part, Reading]
"""The latest reading of every part."""

OF_THE_TIME_BEFORE = frozenset({"rapl"})
"""Ways of reading whose watts are the mean since the reading before, by a counter of energy."""


def meter_rows(
    last: Last, taken: Iterable[MeterResult], *, now_unix_s: float, longest_hold_s: float
) -> "tuple[Last, list[MeterReading]]":
    """Return the latest readings after a round, and what is known of the time since those before."""
    after, rows = dict(last), list[MeterReading]()
    for reading in _readings(last, taken, now_unix_s):
        part = _part(reading)
        before = after.get(part)
        if before is None or before.at_unix_s != reading.at_unix_s:
            after[part] = reading
        if before is not None and before.at_unix_s < reading.at_unix_s:
            rows += _between(before, reading, longest_hold_s)
    return after, rows


def _readings(last: Last, taken: Iterable[MeterResult], now_unix_s: float) -> Iterator[Reading]:
    """Yield what was read; of a meter that is silent, that none of its parts has a value."""
    silent = {(each.meter, each.way): str(each.trouble) for each in taken if each.trouble is not None}
    for each in taken:
        yield from each.readings
    for reading in last.values():
        why = silent.get((reading.meter, reading.way))
        if why is not None:
            yield replace(reading, power_w=None, energy_j=None, at_unix_s=now_unix_s, why=why)


def _part(reading: Reading) -> Part:
    return reading.meter, reading.way, reading.part, reading.node


def _between(before: Reading, reading: Reading, longest_hold_s: float) -> Iterator[MeterReading]:
    from_s, until_s = before.at_unix_s, reading.at_unix_s
    holds = reading if reading.way in OF_THE_TIME_BEFORE else before
    if holds.power_w is None:
        yield _row(reading, from_s, until_s, None, holds.why or "no value")
        return
    held_until_s = until_s if holds is reading else min(until_s, from_s + longest_hold_s)
    yield _row(reading, from_s, held_until_s, holds.power_w)
    if held_until_s < until_s:
        why = reading.why or f"not read for {until_s - from_s:.0f} s"
        yield _row(reading, held_until_s, until_s, None, why)


def _row(of: Reading, from_s: float, until_s: float, power_w: float | None, why: str = "") -> MeterReading:
    return MeterReading(of.meter, of.way, of.part, from_s, until_s, power_w, node=of.node, why=why)
