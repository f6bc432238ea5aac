"""Answers `offpeak prices`: reads the feed that the settings name, and prints the known prices.

On a terminal a day is a line with its course in block characters. JSON has each interval with its value, and the
problems of the sources.
"""

import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

import numpy as np
import typer

from offpeak.display import figure
from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import to_local_s
from offpeak.model.step_series import Series, value_at
from offpeak.model.time_range import parse_time
from offpeak.model.zones import date_text, zone_text
from offpeak.predictors.feeds.markets import site_zone
from offpeak.predictors.feeds.port import INCOMPLETE, KnownSeries, Window
from offpeak.predictors.site_sources import build_price_feed, check_libraries
from offpeak.prices.tariff import Tariff, charge_market
from offpeak.prices.tariff_file import site_tariff
from offpeak.settings.table import Settings
from offpeak.ui.terminal import TextTable, plain_console, print_table, text_table

BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"


@dataclass(frozen=True, eq=False)
class KnownPrices:
    """What is known of a window, on the clock of `zone_clock`; `zone` is the market's name, None for one's own.

    `tariff` is what holds where no prices are set.
    """

    zone: str | None
    window: Window
    clock: tzinfo
    known: KnownSeries
    series: Series
    tariff: Tariff

    @property
    def basis(self) -> str:
        """Return what the prices rest on; a tariff that is set or assumed is not published."""
        if self.tariff.follows_market:
            return f"{self.known.basis}, charged by {self.tariff.text}"
        return self.tariff.basis if self.known.source == self.tariff.source else self.known.basis

    def hours(self) -> tuple[Int64, Float64]:
        """Return the begin of each hour of the window [Unix s] and its mean price, NaN if a part is unknown."""
        start_s = np.arange(self.window.from_s, self.window.until_s, HOUR_S, dtype=np.int64)
        within = start_s[:, None] + np.arange(0, HOUR_S, HOUR_S // 12)
        return start_s, value_at(self.series, within.ravel()).reshape(within.shape).mean(axis=1)


def day_table(prices: KnownPrices) -> TextTable:
    """Return a row a local day: its hours as a course from the window's lowest to its highest, and its figures."""
    rows = []
    start_s, hourly = prices.hours()
    day = to_local_s(start_s, prices.clock) // DAY_S
    for each in np.unique(day):
        value = hourly[day == each]
        known = value[~np.isnan(value)]
        date = date_text(int(start_s[day == each][0]), prices.clock)
        ends = (known.min(), known.mean(), known.max()) if len(known) else ()
        figures = [figure(float(number)) for number in ends] or ["", "", ""]
        rows.append((date, sparkline(value, hourly), *figures))
    return text_table(("day", "its hours", "lowest", "mean", "highest"), rows, texts=(0, 1))


def sparkline(value: Float64, among: Float64) -> str:
    """Return a block character an hour, on the scale of all that are known `among` them."""
    known = among[~np.isnan(among)]
    if not len(known):
        return UNKNOWN * len(value)
    low, span = known.min(), max(float(np.ptp(known)), 1e-9)
    step = np.nan_to_num((value - low) / span * (len(BLOCKS) - 1)).round().astype(int)
    return "".join(UNKNOWN if np.isnan(each) else BLOCKS[at] for each, at in zip(value, step, strict=True))


def prices_json(prices: KnownPrices) -> str:
    """Return the prices as a JSON object; the price of an interval without a known one is null."""
    known, series = prices.known, prices.series
    intervals = zip(series.start_s, series.start_s + series.length_s, series.value, strict=True)
    document = {
        "zone": prices.zone,
        "unit": series.unit,
        "source": known.source,
        "basis": prices.basis,
        "fetched_s": known.fetched_s,
        "age_s": known.age_s,
        "from_s": prices.window.from_s,
        "until_s": prices.window.until_s,
        "prices": [
            {"from_s": int(from_s), "until_s": int(until_s), "price": None if np.isnan(value) else float(value)}
            for from_s, until_s, value in intervals
        ],
        "troubles": [
            {"source": problem.source, "condition": problem.condition, "detail": problem.detail, "hint": problem.hint}
            for problem in known.problems
        ],
    }
    return json.dumps(document, indent=2)


SHOWN_DAYS = 2


def answer(settings: Settings, from_text: str | None, to_text: str | None, *, as_json: bool) -> None:
    """Print the known prices; raise BadPrices if there is none in that time."""
    check_libraries(settings.feeds)
    feed = build_price_feed(settings.feeds, settings.prices)
    zone = site_zone(settings.feeds.zone)
    now_s = int(time.time())
    from_s = int(parse_time(from_text or "today", now_unix_s=now_s, zone=zone))
    later = datetime.fromtimestamp(from_s, zone).date() + timedelta(days=SHOWN_DAYS)
    until_s = int(parse_time(to_text or later.isoformat(), now_unix_s=now_s, zone=zone))
    if until_s <= from_s:
        raise BadInput("--to is not after --from", hint="--to 2026-01-03 is the end of 2 January")
    window = Window(from_s, until_s)
    known = feed.known(window, int(time.time()))
    if known.series is None:
        reasons = "; ".join(str(problem) for problem in known.problems)
        hints = [problem.hint for problem in known.problems if problem.condition not in INCOMPLETE]
        hint = hints[0] if hints else "use --from and --to for another time"
        raise BadPrices(f"no price is known for that time: {reasons}", hint=hint)
    tariff = site_tariff(settings.prices.tariff, feed.clock)
    paid = charge_market(tariff, known.series) if tariff.follows_market else known.series
    prices = KnownPrices(settings.feeds.zone, window, zone, known, paid, tariff)
    if as_json:
        typer.echo(prices_json(prices))
    else:
        console = plain_console()
        known = prices.known
        name = prices.zone or known.source
        source = prices.basis if prices.zone is None else f"{known.source}, {prices.basis}"
        console.print(f"{name}: {prices.series.unit}, {source}; days of {zone_text(prices.clock) or 'this machine'}")
        console.print()
        print_table(day_table(prices))
        if known.problems:
            console.print()
        for problem in known.problems:
            console.print(f"- {problem}; {problem.hint}")
