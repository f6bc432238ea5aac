"""The electricity of a replay: prices and carbon intensity laid on the log's time, and when the price is dear."""

from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from pathlib import Path

import numpy as np

from offpeak.lay import LogSpan, extend, extension_note, lay, parse_start
from offpeak.peak import PeakRule, classify, parse_peak_rule
from offpeak.price_csv import read_series
from offpeak.price_layout import parse_layout
from offpeak.prices import Series, fill_gaps
from offpeak.settings import CarbonSettings, PriceSettings
from offpeak.tariff import Tariff, parse_tariff, tariff_series
from offpeak.units import parse_carbon_g_per_kwh
from offpeak.zones import DAY_S, WEEK_S, date_text
from sim_backend.engine.state import PeakTimes

A_MONDAY = datetime(2024, 1, 1)
"""Where a log without a date is laid on a tariff, which has no year."""

LONGEST_TARIFF_S = 20 * 53 * WEEK_S
"""A tariff is written out for this long at the most; from there on it is continued like a price file."""


@dataclass(frozen=True)
class LaidSeries:
    """A series on a log's clock: Unix time = trace second + `offset_s`; `notes` say in sentences how it was laid."""

    series: Series
    offset_s: int
    zone: tzinfo
    notes: tuple[str, ...]

    def until(self, trace_s: int) -> "LaidSeries":
        """Return the series, continued if it ends before that second of the trace."""
        return replace(self, series=extend(self.series, trace_s + self.offset_s))

    def notes_until(self, trace_s: int) -> tuple[str, ...]:
        """Return the notes, with one more if the series has to be continued up to that second of the trace."""
        note = extension_note(self.series, trace_s + self.offset_s, zone=self.zone)
        return (*self.notes, note) if note else self.notes


@dataclass(frozen=True)
class Prices:
    """Prices on a log's clock, and the rule that says which of them are on-peak."""

    laid: LaidSeries
    rule: PeakRule


def prices_of(log: LogSpan, prices: PriceSettings, start: str | None) -> Prices:
    """Return the price file or tariff of the settings, laid on the log at the date `start` or by the rules of `lay`."""
    when = parse_start(start, log.zone) if start else None
    if prices.file is None:
        tariff = parse_tariff(prices.tariff)
        return Prices(_laid_tariff(log, tariff, when), tariff.hours)
    series = read_series(prices.file, parse_layout(prices.layout or ""))
    if prices.fill_gaps:
        series = fill_gaps(series)
    laid = lay(log, series, start=when)
    return Prices(
        LaidSeries(series, laid.offset_s, log.zone, (laid.note,)), parse_peak_rule(prices.peak_rule, zone=log.zone)
    )


def carbon_of(log: LogSpan, carbon: CarbonSettings, prices: LaidSeries) -> LaidSeries | float | None:
    """Return the carbon intensity [g/kWh] for the time at which the prices lie: a series, a constant, or None."""
    if carbon.source is None:
        return None
    if Path(carbon.source).suffix not in {".csv", ".gz"}:
        return parse_carbon_g_per_kwh(carbon.source)
    series = read_series(Path(carbon.source), parse_layout(""))
    dated = replace(log, unix_start_s=prices.offset_s)
    laid = lay(dated, series)
    return LaidSeries(series, laid.offset_s, log.zone, (f"carbon intensity: {laid.note}",))


def peak_times(prices: Prices) -> PeakTimes:
    """Return when the price's state changes, on the log's clock."""
    series, peak = classify(prices.laid.series, prices.rule)
    changes = np.flatnonzero(np.diff(peak, prepend=np.int8(-1)))
    return PeakTimes(series.start_s[changes] - prices.laid.offset_s, peak[changes])


def _laid_tariff(log: LogSpan, tariff: Tariff, when: date | datetime | None) -> LaidSeries:
    offset_s, note = _lay_on_tariff(log, tariff, when)
    from_s = log.begin_s + offset_s - DAY_S
    length_s = min(log.last_s - log.begin_s + 2 * DAY_S, LONGEST_TARIFF_S)
    return LaidSeries(tariff_series(tariff, from_s, from_s + length_s), offset_s, log.zone, (note,))


def _lay_on_tariff(log: LogSpan, tariff: Tariff, when: date | datetime | None) -> tuple[int, str]:
    if when is not None:
        begin = when if isinstance(when, datetime) else datetime.combine(when, datetime.min.time(), log.zone)
        return int(begin.timestamp()) - log.begin_s, f"log laid on {when} as asked"
    if log.unix_start_s is not None:
        return log.unix_start_s, f"log of {date_text(log.unix_start_s + log.first_s, log.zone)} keeps its own dates"
    monday_s = int(A_MONDAY.replace(tzinfo=tariff.hours.zone).timestamp())
    return monday_s - log.begin_s, f"log without a date laid on a Monday, {A_MONDAY.date()}"
