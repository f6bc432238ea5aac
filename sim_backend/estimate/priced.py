"""Cuts a log to the days for which the price file has prices."""

from dataclasses import replace
from datetime import UTC

from offpeak.model.jobs import Trace
from offpeak.model.local_time import DAY_S, date_text, parse_zone
from offpeak.model.step_series import Series
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.replay import PriceSettings
from sim_backend.traces.period import between, known_period_s


def priced(trace: Trace, prices: PriceSettings) -> Trace:
    """Return the log of the time for which the price file has prices, if that is a day or more of its own dates.

    A log that they do not touch, or that has no date, stays whole: it is laid on other days of the prices.
    """
    if trace.unix_start_s is None or prices.file is None:
        return trace
    return _within(trace, read_series(prices.file, parse_layout(prices.layout or "")), trace.unix_start_s)


def _within(trace: Trace, prices: Series, offset_s: int) -> Trace:
    begin_s, until_s = known_period_s(trace.jobs)
    first_s = max(begin_s, int(prices.start_s[0]) - offset_s)
    last_s = min(until_s, prices.end_s - offset_s)
    if (first_s, last_s) == (begin_s, until_s) or last_s - first_s < DAY_S:
        return trace
    zone = parse_zone(trace.time_zone) if trace.time_zone else UTC
    days = f"{date_text(first_s + offset_s, zone)} to {date_text(last_s + offset_s, zone)}"
    note = f"prices cover a part of the log, {days}: the estimate is for that part"
    return replace(between(trace, first_s, last_s), notes=(*trace.notes, note))
