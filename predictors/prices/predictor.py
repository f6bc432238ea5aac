"""Prices of coming steps behind the port of all predictors: it learns what is published and forecasts the rest."""

from dataclasses import dataclass
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.local_time import DAY_S, to_local_s
from predictors.model_file import Origin
from predictors.port import Prediction
from predictors.prices.history import QUARTER_S, PriceHistory, Steps, joined, price_at
from predictors.prices.members import MEMBERS, Member
from predictors.prices.outlook import AHEAD_DAYS, Outlook, Track, look_ahead
from predictors.prices.past import QUARTERS, Past, days_of, mean_known, past_of
from predictors.prices.spread import offsets
from predictors.state import State, check, number

KEPT_S = 744 * DAY_S
# The course within the hours, where prices are of less than an hour.
COURSE_DAYS = 28
PUBLISHED = "published earlier"


@dataclass(frozen=True, eq=False)
class _View:
    """What is known and what follows from it: `course` float64[96] is a quarter's usual distance to its hour's mean."""

    past: Past
    course: Float64
    outlook: Outlook


class PricePredictor:
    """Learns published prices (PriceHistory), predicts those of `Steps`; NaN and infinite prices are gaps to it.

    `zone` is the clock of the market's days; `holidays` names the country, or country and subdivision ("DE-BY"), whose
    public holidays are days like Sundays, "" for none; None where dates are made up, so that weekdays mean nothing.
    """

    def __init__(
        self,
        zone: tzinfo,
        *,
        holidays: str | None = "",
        name: str = "day-ahead price",
        members: tuple[Member, ...] = MEMBERS,
    ) -> None:
        self.name = name
        self._zone, self._holidays, self._members = zone, holidays, members
        self._history = joined(None, PriceHistory(0, QUARTER_S, np.empty(0)), kept_s=KEPT_S)
        self._view: _View | None = None
        self._track: Track = {}
        self._stale = True

    def learn(self, outcome: PriceHistory, at_s: int) -> None:  # noqa: ARG002 - the port's: these are all known by now
        """Take in published prices; where some were known for the same time, the new ones hold."""
        history = joined(self._history, outcome, kept_s=KEPT_S)
        self._stale |= not _same(history, self._history)
        self._history = history

    def predict(self, question: Steps, at_s: int) -> Prediction:  # noqa: ARG002 - the port's: nothing here ages
        """Return the price of each step: as published, else as forecast. BadPrices before any price is known."""
        view = self._viewed()
        published = price_at(self._history, question.quarter_s)
        forecast, spread = _forecast(view, question.quarter_s, self._zone)
        unknown = np.isnan(published)
        mean = _by_step(np.where(unknown, forecast, published), question)
        quantiles = mean[:, None] + _by_step(np.where(unknown[:, None], spread, 0.0), question)
        all_known = ~_by_step(unknown.astype(np.float64), question).astype(bool)
        return Prediction(mean, quantiles, tuple(PUBLISHED if known else view.outlook.basis for known in all_known))

    def _viewed(self) -> _View:
        if self._view is None or self._stale:
            self._view = self._new_view()
            self._stale = False
        return self._view

    def _new_view(self) -> _View:
        days = days_of(self._history, self._zone)
        if len(days.quarter) == 0:
            raise BadPrices("no day of prices is known to forecast from", hint="check the price feed or file")
        past = past_of(days, ahead=AHEAD_DAYS + 1, holidays=self._holidays)
        outlook = look_ahead(past, self._members, self._track)
        self._track = outlook.track
        return _View(past, _course(days.quarter), outlook)

    @property
    def known_until_s(self) -> int:
        """When the last price that is known ends [Unix s], 0 if none is."""
        known = np.flatnonzero(~np.isnan(self._history.quarters()))
        return self._history.start_s + QUARTER_S * (int(known[-1]) + 1) if len(known) else 0

    @property
    def origin(self) -> Origin:
        """What it learned from, in quarters of an hour, and its mean absolute error of late, NaN if there is none."""
        known = np.flatnonzero(~np.isnan(self._history.quarters()))
        first_s = self._history.start_s + QUARTER_S * int(known[0]) if len(known) else 0
        error = self._view.outlook.error if self._view else np.empty(0)
        mae = float(np.abs(error).mean()) if error.size else np.nan
        return Origin(len(known), first_s, self.known_until_s, mae)

    def state(self) -> State:
        """Return the prices, and what each member said of each day of late before it began."""
        said = np.array([*self._track.values()]).reshape(-1, len(self._members), 24)
        days = np.fromiter(self._track, np.int64, len(self._track))
        history = self._history
        return {"start_s": number(history.start_s), "price": history.price, "day": days, "said": said}

    def restore(self, state: State) -> None:
        """Take over prices and what was said."""
        said, day, start_s = state["said"], state["day"], int(state["start_s"])
        fits = said.shape == (len(day), len(self._members), 24) and state["price"].ndim == 1
        check(is_so=fits and start_s % QUARTER_S == 0, what="what other members said")
        self._history = PriceHistory(start_s, QUARTER_S, np.array(state["price"], np.float64))
        self._track = dict(zip(day.tolist(), said.astype(np.float64), strict=True))
        self._stale = True


def _same(one: PriceHistory, other: PriceHistory) -> bool:
    return one.start_s == other.start_s and np.array_equal(one.price, other.price, equal_nan=True)


def _course(quarter: Float64) -> Float64:
    by_hour = quarter[-COURSE_DAYS:].reshape(-1, 24, QUARTERS // 24)
    distance = (by_hour - by_hour.mean(axis=2, keepdims=True)).reshape(-1, QUARTERS)
    return np.nan_to_num(mean_known(distance, axis=0))


def _forecast(view: _View, quarter_s: Int64, zone: tzinfo) -> tuple[Float64, Float64]:
    """Return the forecast of each quarter-hour, and what to add to it for each of LEVELS."""
    day, clock_s = np.divmod(to_local_s(quarter_s, zone), DAY_S)
    price = np.vstack([view.past.price, view.outlook.price])
    index = _within(day - view.past.first_day, len(price))
    slot = clock_s // QUARTER_S
    hour = slot // (QUARTERS // 24)
    ahead = np.clip(day - view.past.first_day - len(view.past) + 1, 1, AHEAD_DAYS)
    spreads = np.array([offsets(view.outlook.error, ahead=days) for days in range(1, AHEAD_DAYS + 1)])
    return price[index, hour] + view.course[slot], spreads[ahead - 1, hour]


def _within(index: Int64, days: int) -> Int64:
    # Beyond the last day that is forecast, the same weekday of the last week that is.
    weeks = np.maximum(-(-(index - days + 1) // 7), 0)
    return np.asarray(np.clip(index - 7 * weeks, 0, days - 1))


def _by_step(quarters: Float64, question: Steps) -> Float64:
    each = quarters.reshape(question.count, question.step_s // QUARTER_S, *quarters.shape[1:])
    return np.asarray(each.mean(axis=1))
