"""The price curve of the agent: the prices of today and the coming days, their basis, and the on-peak intervals."""

from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import local_days, to_unix_s
from offpeak.model.step_series import Series, split, value_at
from offpeak.model.weighing import CO2_UNIT, Weighing
from offpeak.prices.peak import Peak, PeakRule, classify, weigh
from offpeak.prices.tariff import Tariff, charge_market, price_of_next_mwh, tariff_series
from predictors.choice import ChosenErrors
from predictors.feeds.port import FeedProblem, Window
from predictors.price_forecast import PriceForecast, PriceSource, forecast_prices


@dataclass(frozen=True, eq=False)
class PriceCurve:
    """A series of prices without gaps from a midnight on, and of each interval its class (`Peak`) and its basis.

    `basis` is "published", "tariff" or "forecast ...". `problems` are those of the sources. `quantiles` are the lowest
    and the highest of predictors.port.LEVELS for each interval, float64[n, 2]; None without forecast. `errors` [unit]
    are those of recent forecasts, None if unknown. `weighed` replaces the prices where the site's decisions weigh CO2.
    """

    series: Series
    peak: NDArray[np.int8]
    basis: tuple[str, ...]
    problems: tuple[FeedProblem, ...] = ()
    quantiles: Float64 | None = None
    errors: ChosenErrors | None = None
    weighed: "PriceCurve | None" = None
    decided_by: str = ""

    @property
    def decisions(self) -> "PriceCurve":
        """What the order, delays and plans go by."""
        return self.weighed or self

    @property
    def range_80(self) -> tuple[Float64, Float64]:
        """The range of four of five outcomes for each interval; a published price is both bounds."""
        if self.quantiles is None:
            return self.series.value, self.series.value
        return self.quantiles[:, 0], self.quantiles[:, 1]

    def at(self, unix_s: int) -> int:
        """Return the index of the interval that contains that second, -1 outside."""
        if unix_s >= self.series.end_s:
            return -1
        return int(np.searchsorted(self.series.start_s, unix_s, side="right")) - 1

    def peak_at(self, unix_s: int) -> Peak:
        """Return the class of that second."""
        at = self.at(unix_s)
        return Peak.UNKNOWN if at < 0 else Peak(int(self.peak[at]))

    def peak_until_s(self, unix_s: int) -> int:
        """Return the end of the class of that second, at most the end of the curve."""
        at = self.at(unix_s)
        later = np.flatnonzero(self.peak[at + 1 :] != self.peak[at]) if at >= 0 else np.empty(0)
        return int(self.series.start_s[at + 1 + later[0]]) if len(later) else self.series.end_s


def price_curve(source: PriceSource, rule: PeakRule, zone: tzinfo, *, now_s: int, ahead_s: int) -> PriceCurve:
    """Return the curve from the last midnight of the zone to a midnight at least `ahead_s` from now. Never raises.

    It queries the services of the source, which may take as long as their time-outs.
    """
    window = _whole_days(now_s, now_s + ahead_s, zone)
    if source.is_tariff:
        return _of_tariff(source.tariff, rule, window)
    # Forecasts are made for whole hours on the clock of UTC, as those of every market.
    hours = Window(window.from_s // HOUR_S * HOUR_S, -(-window.until_s // HOUR_S) * HOUR_S)
    return _of_forecast(forecast_prices(source, hours, now_s), rule, source.contract)


def weigh_curve(curve: PriceCurve, carbon: Series | None, weighing: Weighing, rule: PeakRule) -> PriceCurve:
    """Return the curve whose decisions weigh CO2 [g/kWh]; their class is not known where the intensity is not."""
    if not weighing.needs_carbon:
        return curve
    series, peak = classify(weigh(curve.series, carbon, weighing), rule)
    at = np.searchsorted(curve.series.start_s, series.start_s, side="right") - 1
    basis = tuple(series.source if series.unit == CO2_UNIT else curve.basis[each] for each in at)
    return replace(curve, weighed=PriceCurve(series, peak, basis), decided_by=str(weighing))


def _of_tariff(tariff: Tariff, rule: PeakRule, window: Window) -> PriceCurve:
    series, peak = classify(tariff_series(tariff, *window), rule)
    return PriceCurve(series, peak, (tariff.basis,) * len(series))


def _of_forecast(forecast: PriceForecast, rule: PeakRule, contract: Tariff | None) -> PriceCurve:
    whole, basis, quantiles = _by_interval(forecast)
    series, peak = classify(charge_market(contract, whole) if contract else whole, rule)
    at = np.searchsorted(whole.start_s, series.start_s, side="right") - 1
    bases, ranges = tuple(basis[each] for each in at), quantiles[at]
    if contract:
        ranges = np.column_stack([price_of_next_mwh(contract, series.start_s, each) for each in ranges.T])
    return PriceCurve(series, peak, bases, forecast.problems, quantiles=ranges, errors=forecast.errors)


def _by_interval(forecast: PriceForecast) -> tuple[Series, list[str], Float64]:
    """Return the prices, and of each interval its basis and its range. Known prices keep the intervals of their source.

    The simulation uses them unchanged, so an hourly mean would change the agent's decisions.
    """
    steps, prediction, exact = forecast.steps, forecast.prediction, forecast.exact
    step_s = np.arange(steps.start_s, steps.end_s, steps.step_s, dtype=np.int64)
    series = Series(step_s, steps.end_s, prediction.point, forecast.unit, "forecast")
    ranges = prediction.quantiles[:, [0, -1]]
    if exact is None:
        return series, list(prediction.basis), ranges
    series = split(series, np.append(exact.series.start_s, exact.series.end_s))
    price = value_at(exact.series, series.start_s)
    known = ~np.isnan(price)
    step = np.searchsorted(step_s, series.start_s, side="right") - 1
    source = np.searchsorted(exact.series.start_s, series.start_s, side="right") - 1
    basis = [exact.basis[source[at]] if known[at] else prediction.basis[step[at]] for at in range(len(series))]
    ranges = np.where(known[:, None], price[:, None], ranges[step])
    return replace(series, value=np.where(known, price, series.value)), basis, ranges


def _whole_days(from_s: int, until_s: int, zone: tzinfo) -> Window:
    days = local_days(from_s - DAY_S, until_s + 2 * DAY_S, zone)
    midnights, _ = to_unix_s(days.astype(np.int64) * DAY_S, zone)
    first = int(np.searchsorted(midnights, from_s, side="right")) - 1
    last = int(np.searchsorted(midnights, max(until_s, from_s + 1), side="left"))
    return Window(int(midnights[first]), int(midnights[last]))
