"""Prices as they become known: equal steps of a quarter, half or whole hour, in UTC, with gaps."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series, split, value_at

QUARTER_S = 900
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
            "steps with others left out between them are no series", hint="take rows that follow each other"
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
        _lay_over(price, part, start_s)
    return PriceHistory(start_s, QUARTER_S, price)


def _lay_over(price: Float64, part: PriceHistory, start_s: int) -> None:
    index = (part.steps.quarter_s - start_s) // QUARTER_S
    quarters = part.quarters()
    is_known = (index >= 0) & ~np.isnan(quarters)
    price[index[is_known]] = quarters[is_known]


def price_at(history: PriceHistory, unix_s: Int64) -> Float64:
    """Return the price of each instant, NaN if none is known."""
    quarters = history.quarters()
    index = (unix_s - history.start_s) // QUARTER_S
    inside = (index >= 0) & (index < len(quarters))
    price = np.full(len(unix_s), np.nan)
    price[inside] = quarters[index[inside]]
    return price
