"""Trace seconds as people read them: on the axis of a figure, and as a date in a table."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import date_text, offset_at
from sim_backend.compare import Comparison


@dataclass(frozen=True)
class Calendar:
    """Where a trace lies: Unix time = trace second + `offset_s`.

    Axes show time that is `ahead_s` ahead of UTC throughout, because an axis on which clocks change would show an hour
    twice; tables show the clock of `zone`.
    """

    offset_s: int
    zone: tzinfo
    ahead_s: int

    def axis_ms(self, trace_s: Int64 | Float64) -> Float64:
        """Return the instants as a date axis takes them [ms]."""
        return (trace_s.astype(np.float64) + (self.offset_s + self.ahead_s)) * 1000

    def axis_range(self, from_s: int, until_s: int) -> list[float]:
        """Return a period as the range of an axis, at least a minute of it."""
        begin, until = self.axis_ms(np.array([from_s, max(until_s, from_s + 60)])).tolist()
        return [begin, until]

    def minute_text(self, trace_s: int) -> str:
        """Return the local date and time as 2020-09-21 14:05."""
        return datetime.fromtimestamp(trace_s + self.offset_s, self.zone).strftime("%Y-%m-%d %H:%M")

    def day_text(self, trace_s: int) -> str:
        """Return the local date as 2020-09-21."""
        return date_text(trace_s + self.offset_s, self.zone)

    @property
    def clock_text(self) -> str:
        """How far the axes' clock is from UTC, such as UTC+01:00."""
        minutes = abs(self.ahead_s) // 60
        return f"UTC{'-' if self.ahead_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if minutes else "UTC"


def calendar_of(comparison: Comparison) -> Calendar:
    """Return the calendar on which the prices lie, its axes on the clock at the begin of the log."""
    laid = comparison.case.prices.laid
    return Calendar(laid.offset_s, laid.zone, offset_at(comparison.begin_s + laid.offset_s, laid.zone))
