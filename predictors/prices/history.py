"""Prices as they become known, in equal steps in UTC with gaps, and the days of them that the models learn from.

A past has whole days of 24 prices on the market's clock, gaps filled, the kind of each day, and the inputs that are
forecast for it, such as the load. Markets and demand follow the local clock. A day on which the clocks change has 24
hours, too: the repeated hour has the mean price, the skipped hour is interpolated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.local_time import to_local_s, weekday
from offpeak.model.step_series import Series, split, value_at
from offpeak.prices.peak import ClockHours

STEPS_S = (900, 1800, 3600)
# Beyond it a number is a mistake in any currency.
HIGHEST = 1e9


@dataclass(frozen=True)
class PriceSteps:
    """`count` equal steps from `start_s` [Unix s]. Raises BadPrices unless `step_s` is 900, 1800 or 3600 and fits."""

    start_s: int
    step_s: int
    count: int

    def __post_init__(self) -> None:
        if self.step_s not in STEPS_S or self.start_s % QUARTER_S or self.count < 0:
            raise BadPrices(
                f"{self.count} steps of {self.step_s} s from Unix second {self.start_s}",
                hint="a step is 900, 1800 or 3600 s and starts at a quarter of an hour",
            )

    def __len__(self) -> int:
        return self.count

    def take(self, which: NDArray[np.bool_] | Int64) -> "PriceSteps":
        """Return the steps that the indices select. Raises BadPrices unless these follow each other."""
        run = _run(which)
        return replace(self, start_s=self.start_s + run.start * self.step_s, count=run.stop - run.start)

    @property
    def end_s(self) -> int:
        """The end of the last step [Unix s]."""
        return self.start_s + self.count * self.step_s

    @property
    def quarter_s(self) -> Int64:
        """The start of each quarter-hour of the steps [Unix s]."""
        return np.arange(self.start_s, self.end_s, QUARTER_S, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PriceHistory:
    """`price[i]` [currency per MWh] holds for `step_s` from `start_s + i * step_s`; it is not finite if unknown."""

    start_s: int
    step_s: int
    price: Float64

    def __len__(self) -> int:
        return len(self.price)

    def take(self, which: NDArray[np.bool_] | Int64) -> "PriceHistory":
        """Return copies of the prices that the indices select. Raises BadPrices unless these follow each other."""
        run = _run(which)
        return replace(self, start_s=self.start_s + run.start * self.step_s, price=self.price[run].copy())

    @property
    def steps(self) -> PriceSteps:
        """The steps of the prices."""
        return PriceSteps(self.start_s, self.step_s, len(self.price))

    def quarters(self) -> Float64:
        """Return the price of each quarter-hour, NaN if none is known."""
        each = np.repeat(np.asarray(self.price, np.float64), self.steps.step_s // QUARTER_S)
        return np.where(np.abs(each) <= HIGHEST, each, np.nan)


def _run(which: NDArray[np.bool_] | Int64) -> slice:
    index = np.flatnonzero(which) if which.dtype == np.bool_ else which
    if len(index) == 0:
        return slice(0, 0)
    if np.any(np.diff(index) != 1):
        raise BadPrices(
            "steps with others left out between them are not a series", hint="take rows that follow each other"
        )
    return slice(int(index[0]), int(index[-1]) + 1)


def price_history(series: Series) -> PriceHistory:
    """Return the series by quarter-hours, known if their starts are; each has the mean of its known prices."""
    quarter_s = np.arange(-(-int(series.start_s[0]) // QUARTER_S) * QUARTER_S, series.end_s, QUARTER_S, dtype=np.int64)
    start_s = int(quarter_s[0]) if len(quarter_s) else 0
    price = value_at(series, quarter_s)
    parts = split(series, quarter_s)
    first = np.searchsorted(parts.start_s, quarter_s)
    known_s = np.where(parts.known, parts.length_s, 0)
    paid = np.where(parts.known, parts.value, 0.0) * known_s
    changes = (np.diff(first, append=len(parts)) > 1) & ~np.isnan(price)
    price[changes] = np.add.reduceat(paid, first)[changes] / np.add.reduceat(known_s, first)[changes]
    return PriceHistory(start_s, QUARTER_S, price)


def join_histories(earlier: PriceHistory | None, later: PriceHistory, *, kept_s: int) -> PriceHistory:
    """Merge two histories by quarter-hours; the later price wins. Keep the last `kept_s` seconds."""
    parts = [part for part in (earlier, later) if part is not None and len(part.price)]
    if not parts:
        return PriceHistory(0, QUARTER_S, np.empty(0))
    end_s = max(part.steps.end_s for part in parts)
    start_s = max(min(part.start_s for part in parts), end_s - kept_s)
    price = np.full((end_s - start_s) // QUARTER_S, np.nan)
    for part in parts:
        index = (part.steps.quarter_s - start_s) // QUARTER_S
        quarters = part.quarters()
        is_known = (index >= 0) & ~np.isnan(quarters)
        price[index[is_known]] = quarters[is_known]
    return PriceHistory(start_s, QUARTER_S, price)


def price_at(history: PriceHistory, unix_s: Int64) -> Float64:
    """Return the price of each instant, NaN if none is known."""
    quarters = history.quarters()
    index = (unix_s - history.start_s) // QUARTER_S
    inside = (index >= 0) & (index < len(quarters))
    price = np.full(len(unix_s), np.nan)
    price[inside] = quarters[index[inside]]
    return price


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
    # A day in progress, or published in part, does not count as past.
    ended = np.flatnonzero(~np.isnan(quarter[:, -1]))
    return Days(first, quarter[: (int(ended[-1]) + 1 if len(ended) else 0)])


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
