"""The slots that make up a time: quarter-hours, at ragged ends minutes, and at theirs readings, as far as kept."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from offpeak.ledger.buckets import MINUTE_S, QUARTER_S
from offpeak.ledger.rungs import MINUTES, QUARTERS, READINGS, Rung, minutes_of, readings_of
from offpeak.ledger.scratch import scratch
from offpeak.ledger.used import Period

Span = tuple[int, float, float]
"""The number of a period, and from when until when."""


@dataclass(frozen=True)
class Slot:
    """A stretch of time that begins at a full minute, the number of the period, and which share of it lies in there."""

    at_unix_s: int
    period: int
    from_unix_s: float
    until_unix_s: float
    share: float


Slots = list[Slot]


def slots_of(connection: Connection, periods: Sequence[Period]) -> Mapping[Rung, Slots]:
    """Return the slots of the periods, by the table to look in.

    What lies partly in a period is taken by what is finer, or where that was pruned in that part.
    """
    spans = [(number, period.from_unix_s, period.until_unix_s) for number, period in enumerate(periods)]
    quarters, ragged = _split(connection, _slots(spans, QUARTER_S), minutes_of)
    minutes, rest = _split(connection, _slots(map(_span, ragged), MINUTE_S), readings_of)
    return {QUARTERS: quarters, MINUTES: minutes, READINGS: rest}


def _span(slot: Slot) -> Span:
    return slot.period, slot.from_unix_s, slot.until_unix_s


def _slots(spans: Iterable[Span], length_s: int) -> Slots:
    return [slot for span in spans for slot in _of(*span, length_s)]


def _of(number: int, from_unix_s: float, until_unix_s: float, length_s: int) -> Iterator[Slot]:
    first = math.floor(from_unix_s / length_s) * length_s
    for at_unix_s in range(first, math.ceil(until_unix_s), length_s):
        start, end = max(from_unix_s, at_unix_s), min(until_unix_s, at_unix_s + length_s)
        yield Slot(at_unix_s, number, float(start), float(end), (end - start) / length_s)


def _split(
    connection: Connection, slots: Slots, finer: Callable[[ColumnElement[Any]], ColumnElement[bool]]
) -> tuple[Slots, Slots]:
    """Return the slots that are to be taken as they are, and those of which what is finer is kept."""
    ragged = sorted({slot.at_unix_s for slot in slots if slot.share < 1})
    if not ragged:
        return slots, []
    with scratch(connection, [{"at_unix_s": at_unix_s} for at_unix_s in ragged]) as slot:
        at = slot.c.at_unix_s
        kept = set(connection.execute(select(at).where(select(1).where(finer(at)).exists())).scalars())
    fine = [slot.share < 1 and slot.at_unix_s in kept for slot in slots]
    return (
        [slot for slot, is_fine in zip(slots, fine, strict=True) if not is_fine],
        [slot for slot, is_fine in zip(slots, fine, strict=True) if is_fine],
    )
