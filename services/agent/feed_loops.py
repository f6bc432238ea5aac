"""The loops that read feeds: prices and carbon of the coming days, caps on power, and the weather.

Prices are written to the ledger once each, and again where they changed. Caps and weather serve the policy plan.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import Price
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import PowerCap
from offpeak.model.step_series import Series, value_at
from predictors.demand_response import OrderedCaps, read_caps
from predictors.feeds.feed import fetched
from predictors.feeds.port import INCOMPLETE, FeedProblem, Window
from predictors.feeds.registry import temperature_feed
from predictors.price_curve import PriceCurve, price_curve
from predictors.site_sources import carbon_series
from services.agent.loop import ProblemLog
from services.agent.site_context import SiteContext


@dataclass(frozen=True)
class WrittenPrices:
    """The prices that are in the ledger already, by their start [Unix s]: those that have not ended."""

    rows: Mapping[float, Price] = field(default_factory=dict)


def make_price_rows(
    before: WrittenPrices, series: Series, basis: Sequence[str], *, now_s: int, carbon: Series | None = None
) -> tuple[WrittenPrices, tuple[Price, ...]]:
    """Return what is written after this, and the rows that are new: of what ends after `now_s`.

    `basis` says of each interval what it rests on, such as "published" or "forecast ..."; it is the row's source. What
    is published later replaces what was forecast of the same start. `carbon` is in g/kWh; an interval's is that of its
    middle. After a restart `before` is empty: the present and coming hours are written again, over themselves.
    """
    ends_s = series.start_s + series.length_s
    carbon_g = value_at(carbon, series.start_s + series.length_s // 2) if carbon else np.full(len(series), np.nan)
    columns = (series.start_s, ends_s, series.value, carbon_g)
    rows = [
        Price(float(start_s), float(end_s), price, series.currency, said, None if np.isnan(of_co2) else of_co2)
        for start_s, end_s, price, of_co2, said in zip(*(column.tolist() for column in columns), basis, strict=True)
        if end_s > now_s and not np.isnan(price)
    ]
    new = tuple(row for row in rows if before.rows.get(row.from_unix_s) != row)
    return WrittenPrices({row.from_unix_s: row for row in rows}), new


PRICES_EVERY_S = 900.0
"""Prices of a day ahead come once a day; a source that failed is asked again so soon."""
PRICES_AHEAD_S = 2 * DAY_S


class PriceLoop:
    """Asks the site's sources in a thread; `curve` is what is known and forecast, None before the first answer.

    `carbon` [g/kWh] is what is known of the same time, None where nothing is.
    """

    def __init__(self, ledger: Ledger, problem_log: ProblemLog, clock: Callable[[], float]) -> None:
        self._ledger, self._problem_log, self._clock = ledger, problem_log, clock
        self._written = WrittenPrices()
        self.curve: PriceCurve | None = None
        self.carbon: Series | None = None

    async def round(self, parts: SiteContext) -> None:
        """Ask anew."""
        ahead_s = max(PRICES_AHEAD_S, parts.settings.agent.longest_delay_s + DAY_S)
        now_s = int(self._clock())
        curve = await fetched(
            lambda: price_curve(parts.prices, parts.peak_rule, parts.zone, now_s=now_s, ahead_s=ahead_s)
        )
        window = Window(int(curve.series.start_s[0]), curve.series.end_s)
        carbon, carbon_troubles = await fetched(lambda: carbon_series(parts.carbon, window, now_s))
        self._say("prices", curve.troubles)
        self._say("carbon", carbon_troubles)
        self.curve, self.carbon = curve, carbon
        self._written, rows = make_price_rows(self._written, curve.series, curve.basis, now_s=now_s, carbon=carbon)
        self._ledger.write_prices(rows)

    def _say(self, about: str, troubles: Iterable[FeedProblem]) -> None:
        """Say what was wrong; that the coming days are not published yet is no trouble."""
        said = [f"{each}; {each.hint}" for each in troubles if each.condition not in INCOMPLETE]
        self._problem_log.report(about, "; ".join(said) or None)


OUTSIDE_EVERY_S = 60.0
"""A cap may be ordered at short notice."""
WEATHER_EVERY_S = HOUR_S


class OutsideLoop:
    """Asks in threads. `weather` [degC] is None before it is known, or where no source of it is named."""

    def __init__(self, problem_log: ProblemLog, clock: Callable[[], float]) -> None:
        self._problem_log, self._clock = problem_log, clock
        self._caps, self._weather_s = OrderedCaps(), float("-inf")
        self.weather: Series | None = None

    def caps(self) -> tuple[PowerCap, ...]:
        """Return the caps that are not over."""
        return self._caps.ahead(int(self._clock()))

    async def round(self, parts: SiteContext) -> None:
        """Ask anew."""
        settings = parts.settings
        timeout_s = settings.feeds.timeout_s
        self._caps = await fetched(lambda: read_caps(settings.plan, parts.zone, self._caps, timeout_s=timeout_s))
        self._problem_log.report("caps on power", "; ".join(self._caps.troubles) or None)
        if settings.feeds.temperature and self._clock() - self._weather_s > WEATHER_EVERY_S:
            await self._ask_weather(parts, int(self._clock()))
            self._weather_s = self._clock()

    async def _ask_weather(self, parts: SiteContext, now_s: int) -> None:
        feed = temperature_feed(parts.settings.feeds)
        if feed is None:
            return
        known = await fetched(lambda: feed.known(Window(now_s - HOUR_S, now_s + int(PRICES_AHEAD_S)), now_s))
        self.weather = known.series or self.weather
        said = "; ".join(f"{each}; {each.hint}" for each in known.troubles) if known.series is None else None
        self._problem_log.report("weather", said)
