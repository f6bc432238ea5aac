"""Predicts the prices of coming steps by an ensemble, behind the port of all predictors.

It learns published prices and forecasts the rest. A model counts the more, the smaller its recent errors are. Inputs,
such as the load that is forecast for a day, serve models of their own: these replace the others on days with inputs,
unless they have erred more.

With a fallback, published prices judge what was forecast for them the day before: while the forecast errs more than the
prices of the week before, these are the forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, QUARTER_S
from offpeak.model.local_time import to_local_s
from offpeak.predictors.choice import NAIVE, PredictorChoice
from offpeak.predictors.port import ModelOrigin, Prediction, State, check_state, join_states, scalar_array, state_part
from offpeak.predictors.prices.history import (
    QUARTERS,
    Past,
    PriceHistory,
    PriceSteps,
    fill_days,
    join_histories,
    mean_known,
    price_at,
    split_days,
)
from offpeak.predictors.prices.models import MEMBERS, WEEK, Member
from offpeak.predictors.prices.outlook import (
    AHEAD_DAYS,
    Outlook,
    Track,
    TrackedDay,
    copy_last_week,
    error_offsets,
    judge_forecasts,
    look_ahead,
)

KEPT_S = 744 * DAY_S
NO_HISTORY = PriceHistory(0, QUARTER_S, np.empty(0))
# The course within the hours, where prices are of less than an hour.
COURSE_DAYS = 28
PUBLISHED = "published earlier"


@dataclass(frozen=True, eq=False)
class _View:
    """`quarter_profile` float64[96] is a quarter's usual distance to its hour's mean."""

    past: Past
    quarter_profile: Float64
    outlook: Outlook


class PricePredictor:
    """Learns published prices (PriceHistory), predicts those of `Steps`; NaN and infinite prices are gaps to it.

    `zone` is the time zone of the market's days; `holidays` names the country, or country and subdivision ("DE-BY"),
    whose public holidays count as Sundays, "" for none; None if dates are artificial, so that weekdays have no meaning.
    `fallback` chooses between the forecast and the prices of the week before; without one the forecast is used.
    `inputs` names what is learned beside prices.
    """

    def __init__(
        self,
        zone: tzinfo,
        *,
        holidays: str | None = "",
        name: str = "day-ahead price",
        members: tuple[Member, ...] = MEMBERS,
        fallback: PredictorChoice | None = None,
        inputs: Sequence[str] = (),
    ) -> None:
        self.name, self.fallback = name, fallback
        self._zone, self._holidays, self._members = zone, holidays, members
        self._history = NO_HISTORY
        self._inputs = dict.fromkeys(inputs, NO_HISTORY)
        self._view: _View | None = None
        self._track: Track = {}
        self._judged_until_day = 0
        self._stale = True

    def learn(self, outcome: PriceHistory, at_s: int) -> None:  # noqa: ARG002 - the port's: these are all known by now
        """Learn published prices; new prices replace known ones of the same time."""
        history = join_histories(self._history, outcome, kept_s=KEPT_S)
        self._stale |= not _same(history, self._history)
        self._history = history

    def learn_input(self, name: str, values: PriceHistory) -> None:
        """Learn the values of an input, for past and coming steps; new values replace known ones of the same time."""
        history = join_histories(self._inputs[name], values, kept_s=KEPT_S)
        self._stale |= not _same(history, self._inputs[name])
        self._inputs[name] = history

    def predict(self, question: PriceSteps, at_s: int) -> Prediction:  # noqa: ARG002 - the port's: nothing here ages
        """Return the price of each step: as published, else as forecast. BadPrices before any price is known."""
        if self._view is None or self._stale:
            days = split_days(self._history, self._zone)
            if len(days.quarter) == 0:
                raise BadPrices("no day of prices is known to forecast from", hint="check the price feed or file")
            inputs = [split_days(each, self._zone) for each in self._inputs.values()]
            past = fill_days(days, ahead=AHEAD_DAYS + 1, holidays=self._holidays, inputs=inputs)
            outlook = look_ahead(past, self._members, self._track)
            self._track = outlook.track
            if self._errs_more(past):
                outlook = copy_last_week(past, outlook.track)
            quarter = days.quarter
            by_hour = quarter[-COURSE_DAYS:].reshape(-1, 24, QUARTERS // 24)
            distance = (by_hour - by_hour.mean(axis=2, keepdims=True)).reshape(-1, QUARTERS)
            self._view = _View(past, np.nan_to_num(mean_known(distance, axis=0)), outlook)
            self._stale = False
        view = self._view
        published = price_at(self._history, question.quarter_s)
        forecast, spread = _forecast(view, question.quarter_s, self._zone)
        unknown = np.isnan(published)
        mean = _by_step(np.where(unknown, forecast, published), question)
        quantiles = mean[:, None] + _by_step(np.where(unknown[:, None], spread, 0.0), question)
        all_known = ~_by_step(unknown.astype(np.float64), question).astype(bool)
        ahead = _days_ahead(view, question.quarter_s, self._zone)[:: question.step_s // QUARTER_S].tolist()
        pairs = zip(ahead, all_known, strict=True)
        return Prediction(mean, quantiles, tuple(PUBLISHED if known else view.outlook.basis[at] for at, known in pairs))

    def _errs_more(self, past: Past) -> bool:
        """Judge the forecasts of the days that are known by now, and return whether the week before is used instead."""
        if self.fallback is None:
            return False
        judge_forecasts(past, self._track, self.fallback, self._judged_until_day, self._members)
        self._judged_until_day = past.first_day + len(past)
        return self.fallback.used == NAIVE and len(past) > WEEK

    @property
    def known_until_s(self) -> int:
        """The end of the last known price [Unix s], 0 if there is none."""
        history = self._history
        known = np.flatnonzero(~np.isnan(history.quarters()))
        return history.start_s + QUARTER_S * (int(known[-1]) + 1) if len(known) else 0

    def input_history(self, name: str) -> PriceHistory:
        """Return the values of an input that were learned."""
        return self._inputs[name]

    @property
    def origin(self) -> ModelOrigin:
        """The number of learned quarter-hours, and the recent mean absolute error, NaN if there is none."""
        known = np.flatnonzero(~np.isnan(self._history.quarters()))
        first_s = self._history.start_s + QUARTER_S * int(known[0]) if len(known) else 0
        error = self._view.outlook.errors[0] if self._view else np.empty(0)
        mae = float(np.abs(error).mean()) if error.size else np.nan
        return ModelOrigin(len(known), first_s, self.known_until_s, mae)

    def state(self) -> State:
        """Return the prices, the recent forecasts of each member, and the errors of both choices."""
        predictions = np.array([day.forecast for day in self._track.values()]).reshape(-1, len(self._members), 24)
        days = np.fromiter(self._track, np.int64, len(self._track))
        inputs = np.array([day.inputs for day in self._track.values()], np.int64)
        own = {**_history_state(self._history), "day": days, "said": predictions, "known_inputs": inputs}
        own["inputs"] = np.array([*self._inputs], dtype=str)
        parts = {f"input {name}": _history_state(values) for name, values in self._inputs.items()}
        if self.fallback is not None:
            parts["choice"] = {**self.fallback.state(), "until_day": scalar_array(self._judged_until_day)}
        return {**own, **join_states(parts)}

    def restore(self, state: State) -> None:
        """Restore prices, inputs and forecasts.

        Forecasts of other members are made again. Without errors of both choices the forecasts are judged again.
        """
        predictions, day = state["said"], state["day"]
        check_state(is_so=predictions.ndim == 3 and len(predictions) == len(day), what="forecasts of other days")
        self._history = _restored_history(state)
        parts = {name: state_part(state, f"input {name}") for name in self._inputs}
        self._inputs = {name: _restored_history(part) if part else NO_HISTORY for name, part in parts.items()}
        made = predictions.shape[1:] == (len(self._members), 24)
        same = made and state["inputs"].tolist() == [*self._inputs]
        self._track = _restored_track(state, self._members, same_inputs=same) if made else {}
        choice = state_part(state, "choice")
        if self.fallback is not None and choice:
            self.fallback.restore(choice)
            self._judged_until_day = int(choice["until_day"])
        self._stale = True


def _restored_track(state: State, members: tuple[Member, ...], *, same_inputs: bool) -> Track:
    """Return the tracked days, without the forecasts that were made with other inputs."""
    has_inputs = np.array([member.inputs for member in members])
    forecast = np.where(has_inputs[:, None] & (not same_inputs), np.nan, state["said"].astype(np.float64))
    inputs = state["known_inputs"] if same_inputs else np.zeros(len(forecast), np.int64)
    days = [TrackedDay(each, known) for each, known in zip(forecast, inputs.tolist(), strict=True)]
    return dict(zip(state["day"].tolist(), days, strict=True))


def _history_state(history: PriceHistory) -> State:
    return {"start_s": scalar_array(history.start_s), "price": history.price}


def _restored_history(state: State) -> PriceHistory:
    start_s = int(state["start_s"])
    check_state(is_so=start_s % QUARTER_S == 0 and state["price"].ndim == 1, what="no steps of prices")
    return PriceHistory(start_s, QUARTER_S, np.array(state["price"], np.float64))


def _same(one: PriceHistory, other: PriceHistory) -> bool:
    return one.start_s == other.start_s and np.array_equal(one.price, other.price, equal_nan=True)


def _forecast(view: _View, quarter_s: Int64, zone: tzinfo) -> tuple[Float64, Float64]:
    """Return the forecast of each quarter-hour, and the offset from it for each of LEVELS."""
    day, clock_s = np.divmod(to_local_s(quarter_s, zone), DAY_S)
    price = np.vstack([view.past.price, view.outlook.price])
    index = _within(day - view.past.first_day, len(price))
    slot = clock_s // QUARTER_S
    hour = slot // (QUARTERS // 24)
    errors, bias_share = view.outlook.errors, view.outlook.bias_share
    spreads = np.array([error_offsets(error, ahead=d, bias_share=bias_share) for d, error in enumerate(errors, 1)])
    return price[index, hour] + view.quarter_profile[slot], spreads[_days_ahead(view, quarter_s, zone), hour]


def _days_ahead(view: _View, quarter_s: Int64, zone: tzinfo) -> Int64:
    """Return the day of the outlook of each quarter-hour, 0 for the coming day and those before."""
    day = to_local_s(quarter_s, zone) // DAY_S
    return np.asarray(np.clip(day - view.past.first_day - len(view.past), 0, AHEAD_DAYS - 1))


def _within(index: Int64, days: int) -> Int64:
    # Beyond the last day that is forecast, the same weekday of the last week that is.
    weeks = np.maximum(-(-(index - days + 1) // 7), 0)
    return np.asarray(np.clip(index - 7 * weeks, 0, days - 1))


def _by_step(quarters: Float64, question: PriceSteps) -> Float64:
    each = quarters.reshape(question.count, question.step_s // QUARTER_S, *quarters.shape[1:])
    return np.asarray(each.mean(axis=1))
