"""Checks whether an answer is plausible: pure functions of the series, the request and the last good series.

Where the new and the last series overlap, a difference shows a shifted clock, or another auction or zone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.display import utc_minute_text
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import offset_at, to_local_s
from offpeak.model.step_series import Series, merge, split
from predictors.feeds.port import FeedCondition, FeedProblem, FeedQuantity, Window, clip_series, known_s

# Fewer common hours prove nothing.
HOURS_NEEDED = 12
# What rounding and the mean of quarter-hours may change in an hour's value.
ABSOLUTE, RELATIVE = 0.05, 0.01
DISAGREEING_SHARE = 0.1
# A shift must explain nearly all of the difference.
EXPLAINED = 0.1


def hourly(series: Series, first_h: int, hours: int) -> Float64:
    """Return the mean of each of the hours since `first_h` [Unix h]; NaN where any of the hour is unknown."""
    edges_s = HOUR_S * np.arange(first_h, first_h + hours + 1, dtype=np.int64)
    cut = split(series, edges_s)
    hour = cut.start_s // HOUR_S - first_h
    inside = (hour >= 0) & (hour < hours)
    length_s = np.bincount(hour[inside], cut.length_s[inside], hours)
    total = np.bincount(hour[inside], (cut.value * cut.length_s)[inside], hours)
    return np.where(length_s == HOUR_S, total / HOUR_S, np.nan)


def difference(new: Series, last: Series, shift_h: int = 0) -> Float64:
    """Return by how much they differ in each hour that both know, if the new one's clock is `shift_h` ahead.

    Each is counted in units of what rounding could make of it: more than 1 is a difference.
    """
    first_h = int(last.start_s[0]) // HOUR_S
    hours = -(-last.end_s // HOUR_S) - first_h
    was, published = hourly(last, first_h, hours), hourly(new, first_h + shift_h, hours)
    apart = np.abs(published - was) / (ABSOLUTE + RELATIVE * np.abs(was))
    return apart[~np.isnan(apart)]


def shift_h(new: Series, last: Series, candidates: frozenset[int]) -> int:
    """Return by how many hours the new one's clock is ahead of the last good one's, of the candidates; else 0."""
    as_stamped = difference(new, last)
    if len(as_stamped) < HOURS_NEEDED or as_stamped.mean() <= 1:
        return 0
    shifted = {hours: difference(new, last, hours) for hours in candidates if hours}
    errors = {hours: apart.mean() for hours, apart in shifted.items() if len(apart) >= HOURS_NEEDED}
    best = min(errors, key=lambda hours: errors[hours], default=0)
    return best if best and errors[best] < EXPLAINED * as_stamped.mean() else 0


def contradicts(new: Series, last: Series) -> bool:
    """Return whether more than a few of the common hours have another value."""
    apart = difference(new, last)
    return len(apart) >= HOURS_NEEDED and bool(np.mean(apart > 1) > DISAGREEING_SHARE)


STEPS_S = (900, 1800, 3600)
# What sensors and programs write where they know nothing.
SENTINELS = (-127.0, -999.0, -9999.0, -32768.0, 999.0, 9999.0, 32767.0, 65535.0, 99999.0)
NEAR, NEAR_SHARE = 50.0, 0.05
FLAT_S = 23 * HOUR_S


@dataclass(frozen=True)
class CheckContext:
    """The request to a source; `clock` is the time zone of the market's days, `last` the last good series if any."""

    window: Window
    quantity: FeedQuantity
    clock: tzinfo
    last: Series | None = None


Check = Callable[[Series, CheckContext], tuple[FeedCondition, str] | None]


def check_series(series: Series, context: CheckContext, *, own: bool) -> FeedProblem | None:
    """Return the first thing that is wrong with the series, None if it can be believed and covers the window.

    The operator's `own` files and rules may be flat, of any step, and other than yesterday.
    """
    for check in OF_ALL if own else OF_ALL + OF_PUBLISHED + LAST:
        if found := check(series, context):
            return FeedProblem(found[0], series.source, found[1])
    return _incomplete(series, context)


def _unit(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    if series.unit == context.quantity.unit:
        return None
    return FeedCondition.WRONG_CURRENCY, f"answers in {series.unit}, asked for {context.quantity.unit}"


def _limits(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    low, high, unit = context.quantity.low, context.quantity.high, context.quantity.unit
    outside = (series.value < low) | (series.value > high)
    if not outside.any():
        return None
    worst = series.value[outside][0]
    return FeedCondition.IMPLAUSIBLE, f"{worst:g} {unit} at {_when(series, outside)} is outside {low:g} to {high:g}"


def _sentinels(series: Series, _: CheckContext) -> tuple[FeedCondition, str] | None:
    marked = np.isin(series.value, SENTINELS)
    others = series.value[series.known & ~marked]
    for value in np.unique(series.value[marked]):
        # A true price of -127 has similar prices around it, and a load of 9999 MW has similar loads.
        if len(others) == 0 or np.abs(others - value).min() > max(NEAR, NEAR_SHARE * abs(value)):
            return FeedCondition.IMPLAUSIBLE, f"{value:g} at {_when(series, series.value == value)} stands for no value"
    return None


def _steps(series: Series, _: CheckContext) -> tuple[FeedCondition, str] | None:
    odd = series.known & ~np.isin(series.length_s, STEPS_S)
    if not odd.any():
        return None
    return FeedCondition.IMPLAUSIBLE, f"a value holds for {series.length_s[odd][0]} s, not for 15, 30 or 60 min"


def _flat(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    long = merge(series)
    flat = long.known & (long.length_s >= FLAT_S)
    if not (context.quantity.final and flat.any()):
        return None
    return FeedCondition.IMPLAUSIBLE, f"{long.value[flat][0]:g} all day from {_when(long, flat)}"


def _shifted(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    ahead_h = round(offset_at(context.window.from_s, context.clock) / HOUR_S)
    late_s = int(series.start_s[0]) - context.window.from_s
    hours = late_s // HOUR_S if late_s == series.end_s - context.window.until_s == ahead_h * HOUR_S else 0
    if not hours and context.last is not None:
        hours = shift_h(series, context.last, frozenset({-2, -1, 1, 2, ahead_h, -ahead_h}))
    return (FeedCondition.SHIFTED_CLOCK, f"its times are {hours:+d} h off") if hours else None


def _other(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    if context.last is None or not (context.quantity.final and contradicts(series, context.last)):
        return None
    return FeedCondition.WRONG_AUCTION, f"differs from what {context.last.source} published for the same hours"


OF_ALL: tuple[Check, ...] = (_unit, _limits, _sentinels)
OF_PUBLISHED: tuple[Check, ...] = (_steps, _flat)
LAST: tuple[Check, ...] = (_shifted, _other)


def _incomplete(series: Series, context: CheckContext) -> FeedProblem | None:
    from_s, until_s = context.window
    missing_s = until_s - from_s - known_s(series, context.window)
    if missing_s == 0:
        return None
    part = clip_series(series, context.window)
    end_s = from_s if part is None or not part.known.any() else int((part.start_s + part.length_s)[part.known][-1])
    if missing_s == until_s - end_s and _is_edge(end_s, context):
        return FeedProblem(FeedCondition.NOT_YET_PUBLISHED, series.source, f"ends at {utc_minute_text(end_s)}")
    return FeedProblem(
        FeedCondition.HALF_MISSING, series.source, f"{missing_s / HOUR_S:g} h of {(until_s - from_s) / HOUR_S:g} h"
    )


def _is_edge(end_s: int, context: CheckContext) -> bool:
    """Return whether a publication may end there: an auction's at midnight, a forecast's anywhere."""
    midnight = int(to_local_s(np.array([end_s], np.int64), context.clock)[0]) % DAY_S == 0
    return midnight or end_s == context.window.from_s or not context.quantity.final


def _when(series: Series, which: NDArray[np.bool_]) -> str:
    return utc_minute_text(int(series.start_s[which][0]))
