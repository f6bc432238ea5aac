"""The electricity of a replay: prices and carbon intensity laid on the log's time, and what cooling adds.

Cooling goes by the same table as in the day-ahead plan. The draw is constant between starts, ends and changes of nodes,
and so is the PUE: the sums are exact.
"""

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

import numpy as np

from offpeak.errors import BadInput, BadPrices
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH, J_PER_MWH, WEEK_S
from offpeak.model.facility import Facility, cooling_w, facility_named
from offpeak.model.step_integrals import StepIntegral, integrals
from offpeak.model.step_series import Series, fill_gaps
from offpeak.model.units import parse_carbon_g_per_kwh
from offpeak.model.weighing import BY_PRICE, Weighing, parse_weighing
from offpeak.model.zones import date_text
from offpeak.prices.alignment import AlignmentWeeks, LogSpan, align_log, extend, extension_note, instant_of, parse_start
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_file_and_layout, parse_layout
from offpeak.prices.peak import PeakRule, classify, parse_peak_rule, weigh
from offpeak.prices.tariff import Tariff, charge_market, check_market, tariff_series
from offpeak.prices.tariff_file import is_file, site_tariff
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import CarbonSettings, PriceSettings
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.nodes.power_curve import PowerCurve

A_MONDAY = datetime(2024, 1, 1)
"""Where a log without a date is laid on a tariff, which has no year."""

LONGEST_TARIFF_S = 20 * 53 * WEEK_S
"""A tariff is written out for this long at the most; from there on its weeks are repeated like a price file's."""

NO_ZONE = "UTC assumed, as the log names no time zone: --time-zone ZONE"

CARBON_UNIT = "g/kWh"


@dataclass(frozen=True)
class AlignedSeries:
    """A series on a log's clock: Unix time = trace second + `offset_s`; `notes` are sentences on how it was aligned.

    `tariff` is the tariff from which the series was made, None for a file. `assumed` names the date or time zone of a
    log that were assumed for a tariff, "" for none. `are_gaps_filled`: the gaps that are left cannot be filled from an
    earlier week. `weeks` are those of a price file that were there to choose from, None for a log on its own dates.
    """

    series: Series
    offset_s: int
    zone: tzinfo
    notes: tuple[str, ...]
    tariff: Tariff | None = None
    assumed: str = ""
    are_gaps_filled: bool = False
    weeks: AlignmentWeeks | None = None

    def until(self, trace_s: int) -> "AlignedSeries":
        """Return the series, continued if it ends before that second of the trace."""
        until_s = trace_s + self.offset_s
        return replace(self, series=extend(self._written_until(until_s), until_s))

    def notes_until(self, trace_s: int) -> tuple[str, ...]:
        """Return the notes, with one more if weeks must be repeated up to that second of the trace."""
        until_s = trace_s + self.offset_s
        note = extension_note(self._written_until(until_s), until_s, zone=self.zone)
        return (*self.notes, note) if note else self.notes

    def _written_until(self, unix_s: int) -> Series:
        """Return the known series without repeated weeks: a file unchanged, a tariff up to that time."""
        if self.tariff is None or unix_s <= self.series.end_s:
            return self.series
        from_s = int(self.series.start_s[0])
        return tariff_series(self.tariff, from_s, min(unix_s, from_s + LONGEST_TARIFF_S))


Carbon = AlignedSeries | float | None
"""The carbon intensity [g/kWh] of a replay: on the log's clock, the same in all hours, or not known."""


@dataclass(frozen=True)
class ReplayPrices:
    """Prices on a log's clock, what decisions go by, and the rule that says when that is on-peak.

    `tariff` is that of the bill, with its demand charges; None if the prices are those of a file alone. `market` is the
    price of the market that a tariff charges, None if there is no file of it.
    """

    aligned: AlignedSeries
    rule: PeakRule
    weighing: Weighing = BY_PRICE
    tariff: Tariff | None = None
    market: Series | None = None


def prices_of(log: LogSpan, prices: PriceSettings, start: str | None) -> ReplayPrices:
    """Return the price file or tariff of the settings, laid on the log at the date `start` or by the rules of `lay`."""
    when = parse_start(start, log.zone) if start else None
    weighing, rule = parse_weighing(prices.decide_by), parse_peak_rule(prices.peak_rule, zone=log.zone)
    if prices.file is None:
        tariff = site_tariff(prices.tariff, log.zone)
        check_market(tariff, has_prices=False)
        # The hours of a tariff do not say when CO2 is high.
        peaks = rule if weighing.needs_carbon else tariff.on_peak(rule)
        if when is not None:
            offset_s, note = instant_of(log, when) - log.begin_s, f"log mapped to {when} as asked"
        elif log.unix_start_s is not None:
            offset_s = log.unix_start_s
            note = f"log mapped to its own dates, from {date_text(offset_s + log.first_s, log.zone)}"
        else:
            offset_s = int(A_MONDAY.replace(tzinfo=tariff.calendar.zone).timestamp()) - log.begin_s
            note = f"log without a date mapped to a Monday, {A_MONDAY.date()}"
        from_s = log.begin_s + offset_s - DAY_S
        length_s = min(log.last_s - log.begin_s + 2 * DAY_S, LONGEST_TARIFF_S)
        # Without a date the log's second 0 is a midnight of the tariff's own clock.
        assumed = "" if when is not None or log.unix_start_s is not None else note
        if not assumed and log.is_zone_assumed and not tariff.names_zone:
            assumed = NO_ZONE
        series = tariff_series(tariff, from_s, from_s + length_s)
        aligned_tariff = AlignedSeries(series, offset_s, log.zone, (note,), tariff, assumed)
        return ReplayPrices(aligned_tariff, peaks, weighing, tariff)
    series = read_series(prices.file, parse_layout(prices.layout or ""))
    if series.unit == CARBON_UNIT:
        raise BadPrices(f"{prices.file}: holds a carbon intensity, no prices", hint="give it with --carbon")
    filled = fill_gaps(series) if prices.fill_gaps else series
    aligned = align_log(log, filled, start=when)
    notes = [aligned.note, *([aligned.weeks.note] if aligned.weeks else [])]
    notes += gaps_notes(series, filled, "in no cost") if prices.fill_gaps else ()
    market = filled
    contract = site_tariff(prices.tariff, log.zone) if prices.tariff and is_file(prices.tariff) else None
    if contract:
        check_market(contract, has_prices=True)
        notes.append(contract.description)
        filled = charge_market(contract, filled)
    align_series = AlignedSeries(
        filled, aligned.offset_s, log.zone, tuple(notes), are_gaps_filled=prices.fill_gaps, weeks=aligned.weeks
    )
    return ReplayPrices(align_series, rule, weighing, contract, market)


def gaps_notes(given: Series, filled: Series, uncounted: str) -> tuple[str, ...]:
    """Return in sentences how long the filled gaps of a series are, and the others, which count as `uncounted`."""
    left_s = sum(until_s - from_s for from_s, until_s in filled.gaps())
    filled_s = sum(until_s - from_s for from_s, until_s in given.gaps()) - left_s
    notes = []
    if filled_s:
        notes.append(f"{filled_s / HOUR_S:,g} h of gaps filled from the same hour of the latest known week before each")
    if left_s:
        notes.append(f"{left_s / HOUR_S:,g} h of gaps stay, as no week before them is known: they are {uncounted}")
    return tuple(notes)


def carbon_of(log: LogSpan, carbon: CarbonSettings, prices: AlignedSeries) -> Carbon:
    """Return the carbon intensity [g/kWh] for the time at which the prices lie: a series, a constant, or None."""
    if carbon.source is None:
        return None
    path, layout = parse_file_and_layout(carbon.source)
    if path.suffix not in {".csv", ".gz"}:
        try:
            return parse_carbon_g_per_kwh(carbon.source)
        except BadInput as problem:
            hint = f"{problem.hint}; or name a file, CSV plain or .gz"
            raise BadInput(f"carbon intensity: {problem}", hint=hint) from None
    series = read_series(path, layout)
    if series.unit != CARBON_UNIT:
        raise BadPrices(f"{carbon.source}: holds {series.unit}, no carbon intensity", hint="give prices with --prices")
    aligned = align_log(replace(log, unix_start_s=prices.offset_s), series)
    filled = fill_gaps(series)
    notes = tuple(f"carbon intensity: {note}" for note in (aligned.note, *gaps_notes(series, filled, "in no emission")))
    return AlignedSeries(filled, aligned.offset_s, log.zone, notes, are_gaps_filled=True)


def decision_series(prices: ReplayPrices, carbon: Carbon) -> Series:
    """Return what decisions go by, over the time of the prices and on their clock."""
    if not isinstance(carbon, AlignedSeries):
        return weigh(prices.aligned.series, carbon, prices.weighing)
    aligned = carbon.until(prices.aligned.series.end_s - prices.aligned.offset_s)
    shift_s, series = prices.aligned.offset_s - aligned.offset_s, aligned.series
    on_clock = replace(series, start_s=series.start_s + shift_s, end_s=series.end_s + shift_s)
    return weigh(prices.aligned.series, on_clock, prices.weighing)


def peak_times(prices: ReplayPrices, carbon: Carbon = None) -> PeakTimes:
    """Return when the state of what decisions go by changes, on the log's clock."""
    series, peak = classify(decision_series(prices, carbon), prices.rule)
    changes = np.flatnonzero(np.diff(peak, prepend=np.int8(-1)))
    return PeakTimes(series.start_s[changes] - prices.aligned.offset_s, peak[changes])


@dataclass(frozen=True, eq=False)
class CoolingConditions:
    """The machine room, and the temperature outside [degrees C]."""

    facility: Facility
    outside_c: float

    @property
    def note(self) -> str:
        """A remark for readers."""
        beyond = self.facility.beyond_table(np.array([self.outside_c]))
        exceeded = f"; {beyond}" if beyond else ""
        return f"cooling: {self.facility.name}, {self.outside_c:g} C outside at all times{exceeded}"


@dataclass(frozen=True)
class Cooling:
    """What cooling took: energy, money in the prices' currency (0 while none is known), and CO2 if that is known.

    `pue` is the energy of all over that of the computers, 1 where these took none.
    """

    kwh: float
    cost: float
    co2_kg: float | None
    pue: float


def room_of(settings: PlanSettings, *, full_power_w: float) -> CoolingConditions | None:
    """Return the room, None if no facility is set. Raises BadInput for one that cannot be read."""
    if settings.facility is None:
        return None
    return CoolingConditions(facility_named(settings.facility, full_power_w=full_power_w), settings.outside_c)


def cooling_of(room: CoolingConditions, curve: PowerCurve, price: StepIntegral, carbon: StepIntegral | None) -> Cooling:
    """Return what cooling takes while the machine draws the power of the curve."""
    edges_s, it_w = curve.edges_s, curve.total_w
    watts = cooling_w(room.facility, it_w, np.full(len(it_w), room.outside_c))
    seconds = np.diff(edges_s)
    it_j, cooling_j = float(it_w @ seconds), float(watts @ seconds)
    cost = float(watts @ integrals(price, edges_s[:-1], edges_s[1:])) / J_PER_MWH
    co2_kg = None
    if carbon is not None:
        co2_kg = float(watts @ integrals(carbon, edges_s[:-1], edges_s[1:])) / J_PER_KWH / 1000
    return Cooling(cooling_j / J_PER_KWH, cost, co2_kg, 1 + cooling_j / it_j if it_j else 1.0)
