"""Series as integrals: what a stretch of time costs or emits per watt, for whole columns of stretches at once."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64
from offpeak.model.local_time import DAY_S
from offpeak.model.step_series import Series, split, value_at

CENTURY_S = 36_525.0 * DAY_S


def known_else_forecast(known: Series | None, forecast: Series) -> Series:
    """Return the published values wherever there are any, and the forecast only where there are none."""
    if known is None:
        return forecast
    if known.unit != forecast.unit:
        raise BadPrices(f"{known.source}: is in {known.unit}, but {forecast.source} in {forecast.unit}")
    start_s = min(int(known.start_s[0]), int(forecast.start_s[0]))
    end_s = max(known.end_s, forecast.end_s)
    whole = Series(np.array([start_s]), end_s, np.array([np.nan]), known.unit, forecast.source)
    # Where either ends the other may go on: both ends are edges, too.
    edges = np.concatenate([known.start_s, forecast.start_s, [known.end_s, forecast.end_s]])
    cut = split(whole, edges)
    published = value_at(known, cut.start_s)
    return replace(cut, value=np.where(np.isnan(published), value_at(forecast, cut.start_s), published))


@dataclass(frozen=True, eq=False)
class Integral:
    """`total[i]` is the integral of a series up to `edge_s[i]`; between the edges it grows evenly."""

    edge_s: Float64
    total: Float64

    def between(self, from_s: Float64, until_s: Float64) -> Float64:
        """Return the integral [unit x s] of each stretch."""
        return np.interp(until_s, self.edge_s, self.total) - np.interp(from_s, self.edge_s, self.total)


def integral(series: Series) -> Integral:
    """Return the integral of a series; a gap in it counts as its mean.

    For a century before it, its first value holds; for one behind it, the mean of its last day. BadPrices if it knows
    no value at all.
    """
    value = _without_gaps(series)
    edge_s = np.append(series.start_s, series.end_s).astype(np.float64)
    total = np.append(0.0, np.cumsum(value * np.diff(edge_s)))
    day_s = min(float(DAY_S), edge_s[-1] - edge_s[0])
    last_day = (total[-1] - np.interp(edge_s[-1] - day_s, edge_s, total)) / day_s
    return Integral(
        np.concatenate([edge_s[:1] - CENTURY_S, edge_s, edge_s[-1:] + CENTURY_S]),
        np.concatenate([total[:1] - value[0] * CENTURY_S, total, total[-1:] + last_day * CENTURY_S]),
    )


def _without_gaps(series: Series) -> Float64:
    known = series.known
    if known.all():
        return series.value
    if not known.any():
        raise BadPrices(f"{series.source}: has no known value", hint="`offpeak prices` shows what each source knows")
    mean = np.average(series.value[known], weights=series.length_s[known])
    return np.where(known, series.value, mean)
