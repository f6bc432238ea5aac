"""What the models learn from: whole days of 24 prices on the market's clock, gaps filled, what kind of day each is, and
the inputs that are forecast for it, such as the load.

Markets and demand follow the local clock. A day on which the clocks change has 24 hours, too: the repeated hour has the
mean price, the skipped hour is interpolated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import to_local_s, weekday
from offpeak.prices.peak import ClockHours
from predictors.prices.history import QUARTER_S, PriceHistory

QUARTERS = DAY_S // QUARTER_S
SUNDAY = 6
BRIDGED_H = 3


@dataclass(frozen=True, eq=False)
class Past:
    """The days from local day number `first_day` on.

    `price` float64[days, 24] is finite; `known` bool[days] marks the completely known days, the only ones to learn
    from. `kind` int64[more than days] is 0 for Monday to 6 for Sunday and for a public holiday; it is 0 for all days if
    the dates are unknown. `inputs` float64[more than days, inputs, 24] are known before their day begins, NaN all day
    if an hour of it is not.
    """

    first_day: int
    price: Float64
    known: NDArray[np.bool_]
    kind: Int64
    inputs: Float64 = field(default_factory=lambda: np.empty((0, 0, 24)))

    def __len__(self) -> int:
        return len(self.price)

    def inputs_known(self) -> NDArray[np.bool_]:
        """Return for each day which inputs are known, bool[days, inputs]."""
        return np.asarray(~np.isnan(self.inputs).any(axis=2))

    def until(self, days: int) -> "Past":
        """Return the first `days` days, with the kinds and inputs of all."""
        return replace(self, price=self.price[:days], known=self.known[:days])

    def followed_by(self, day: Float64) -> "Past":
        """Return the past in which the coming day had these 24 prices, which are not to be learned."""
        return replace(self, price=np.vstack([self.price, day]), known=np.append(self.known, False))


@dataclass(frozen=True, eq=False)
class Days:
    """A history by local days: `quarter` float64[days, 96], NaN if no price is known, from day number `first` on."""

    first: int
    quarter: Float64

    @property
    def hour(self) -> Float64:
        """The mean of the known prices of each local hour, float64[days, 24], NaN if none is known."""
        return mean_known(self.quarter.reshape(-1, 24, QUARTERS // 24), axis=2)


def mean_known(value: Float64, *, axis: int) -> Float64:
    """Return the mean without NaN along that axis, NaN if all values are NaN."""
    count = np.sum(~np.isnan(value), axis=axis)
    mean: Float64 = np.divide(np.nansum(value, axis=axis), count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean


def split_days(history: PriceHistory, zone: tzinfo) -> Days:
    """Return the history by days of that clock, the last one being the last that is known to its end."""
    price = history.quarters()
    day, clock_s = np.divmod(to_local_s(history.steps.quarter_s, zone), DAY_S)
    known = ~np.isnan(price)
    if not known.any():
        return Days(0, np.empty((0, QUARTERS)))
    first = int(day[known][0])
    slot = (day[known] - first) * QUARTERS + clock_s[known] // QUARTER_S
    count = np.bincount(slot, minlength=(int(day[known].max()) - first + 1) * QUARTERS)
    total = np.bincount(slot, price[known], len(count))
    quarter = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0).reshape(-1, QUARTERS)
    return Days(first, quarter[: _ended(quarter)])


def _ended(quarter: Float64) -> int:
    # A day in progress, or published in part, does not count as past.
    ended = np.flatnonzero(~np.isnan(quarter[:, -1]))
    return int(ended[-1]) + 1 if len(ended) else 0


def fill_days(days: Days, *, ahead: int, holidays: str | None, inputs: Sequence[Days] = ()) -> Past:
    """Return the days with their gaps filled, and the kinds and inputs of `ahead` days after them too.

    `holidays` names the country, or country and subdivision, whose public holidays count as Sundays; "" for none, None
    if the dates are artificial, so that weekdays have no meaning.
    """
    bridged = _bridged(days.hour)
    known = np.logical_not(np.isnan(bridged).any(axis=1))
    kind = day_kinds(np.arange(days.first, days.first + len(known) + ahead, dtype=np.int64), holidays)
    values = [_aligned(each, days.first, len(kind)) for each in inputs]
    return Past(days.first, _filled(bridged), known, kind, np.stack(values, axis=1) if values else np.empty((0, 0, 24)))


def _aligned(days: Days, first: int, count: int) -> Float64:
    """Return the hours of `count` days from local day `first` on, NaN for a day that is not known from hour to hour."""
    hour = _bridged(days.hour)
    place = np.arange(len(hour)) + days.first - first
    inside = (place >= 0) & (place < count) & ~np.isnan(hour).any(axis=1)
    aligned = np.full((count, 24), np.nan)
    aligned[place[inside]] = hour[inside]
    return aligned


def day_kinds(day: Int64, holidays: str | None) -> Int64:
    """Return 0 for Monday to 6 for Sunday or a public holiday of each local day number; 0 for all if None is given."""
    if holidays is None:
        return np.zeros(len(day), np.int64)
    # Where every hour of every day would be on-peak, only a holiday is not.
    worked = ClockHours(0, DAY_S, holidays=holidays, zone=UTC).on_peak_at(day * DAY_S)
    return np.where(worked, weekday(day), SUNDAY)


def _bridged(hour: Float64) -> Float64:
    flat = hour.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if len(known) == 0:
        return hour
    index = np.arange(len(flat))
    after = np.searchsorted(known, index)
    inside = (after > 0) & (after < len(known))
    width = np.zeros(len(flat), np.int64)
    width[inside] = known[after[inside]] - known[after[inside] - 1] - 1
    between = np.interp(index, known, flat[known])
    return np.where(np.isnan(flat) & inside & (width <= BRIDGED_H), between, flat).reshape(hour.shape)


def _filled(hour: Float64) -> Float64:
    filled = hour.copy()
    for day in np.flatnonzero(np.isnan(hour).any(axis=1)):
        for before in (day - 7, day - 1):
            if before >= 0:
                filled[day] = np.where(np.isnan(filled[day]), filled[before], filled[day])
    return np.where(np.isnan(filled), np.nanmedian(filled), filled) if np.isnan(filled).any() else filled
