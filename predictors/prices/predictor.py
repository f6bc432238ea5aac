"""Predicts the prices of coming steps by an ensemble, behind the port of all predictors.

It learns published prices and forecasts the rest. A model counts the more, the smaller its recent errors are. Inputs,
such as the load that is forecast for a day, serve models of their own: these replace the others on days with inputs,
unless they have erred more.

The quantiles are those of the ensemble's own last errors, scaled by the size of each hour's and of the last days': a
split conformal interval on a sliding window, by hour. No distribution is assumed, and the interval widens and narrows
as the errors do. Source of the idea: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005.

With a fallback, published prices judge what was forecast for them the day before: while the forecast errs more than the
prices of the week before, these are the forecast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import to_local_s
from predictors.choice import NAIVE, ChoiceRule, PredictorChoice
from predictors.model_file import ModelOrigin
from predictors.port import LEVELS, MEDIAN, Prediction, State, check_state, join_states, scalar_array, state_part
from predictors.prices.history import QUARTER_S, PriceHistory, PriceSteps, join_histories, price_at
from predictors.prices.models import (
    ENOUGH_DAYS,
    MEMBERS,
    WEEK,
    Member,
    fit_all,
    forecasts,
    mix_forecasts,
    one_thread,
    shares,
)
from predictors.prices.past import QUARTERS, Past, fill_days, mean_known, split_days

AHEAD_DAYS = 7
# The number of days of forecasts on which the weights of the models and the intervals are based.
TRACKED_DAYS = 28
# The share of the recent bias that is corrected: the best value over the first years of five markets.
BIAS_SHARE = 0.5

Track = Mapping[int, Float64]
"""The forecast of each member before a local day began: day number -> float64[members, 24]."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What follows a past.

    `price` float64[AHEAD_DAYS, 24] are the following days; `errors[i]` float64[days, 24] is price minus forecast of the
    previous days by the models that forecast the day `i` days later; `basis` describes the basis of the forecast;
    `track` is the state for the next outlook. The median is corrected by `bias_share` of the recent bias.
    """

    price: Float64
    errors: tuple[Float64, ...]
    basis: str
    track: Track
    bias_share: float = BIAS_SHARE


@one_thread
def look_ahead(past: Past, members: tuple[Member, ...], before: Track) -> Outlook:
    """Return the outlook from a past of at least one day; what `before` lacks is made up for from earlier pasts.

    Raises BadPrices if the past is too short for every member.
    """
    models = fit_all(members, past)
    coming = forecasts(models, past)
    _check_any(coming, past, members)
    days = [int(day) for day in np.flatnonzero(past.known) if day >= max(1, len(past) - TRACKED_DAYS)]
    track = {past.first_day + day: _member_forecasts(past, day, members, before) for day in days}
    error = past.price[days, None] - np.array([*track.values()]).reshape(-1, *coming.shape)
    price, errors, extended = np.empty((AHEAD_DAYS, 24)), list[Float64](), past
    for ahead in range(AHEAD_DAYS):
        said = forecasts(models, extended)
        share = shares(error, said, members)
        price[ahead] = mix_forecasts(said, share)
        errors.append(_errors(mix_forecasts(error, share), past))
        extended = extended.followed_by(price[ahead])
    track[past.first_day + len(past)] = coming
    return Outlook(price, tuple(errors), _basis(past, members, shares(error, coming, members)), track)


def _errors(error: Float64, past: Past) -> Float64:
    complete = error[~np.isnan(error).any(axis=1)]
    # After a single day there is no forecast yet: any hour may have the price of any other.
    return complete if len(complete) else past.price[-1:] - past.price[-1].mean()


def _check_any(coming: Float64, past: Past, members: tuple[Member, ...]) -> None:
    if np.isnan(coming).all():
        least = min(members, key=lambda member: member.days)
        raise BadPrices(
            f"{least.name} needs {least.days} whole days of prices, and {int(past.known.sum())} are known",
            hint="load older prices, or use the ensemble until there are as many",
        )


def _member_forecasts(past: Past, day: int, members: tuple[Member, ...], before: Track) -> Float64:
    predictions = before.get(past.first_day + day)
    if predictions is not None:
        return predictions
    earlier = past.until(day)
    return forecasts(fit_all(members, earlier), earlier)


def _basis(past: Past, members: tuple[Member, ...], share: Float64) -> str:
    most = sorted(range(len(members)), key=lambda i: -share[i])[:3]
    parts = ", ".join(f"{members[i].name} {share[i]:.0%}" for i in most if share[i] >= 0.005)
    return f"forecast from {int(past.known.sum())} days: {parts}"


FALLBACK_RULE = ChoiceRule(window=14 * 24, least=ENOUGH_DAYS * 24)
"""Two weeks of hours: the errors of a single week vary so much that a working market would leave its forecast."""


def price_fallback() -> PredictorChoice:
    """Return the choice between the prices of the week before and the forecast, which is used until it is judged."""
    return PredictorChoice(("week before", "forecast"), FALLBACK_RULE, at_first=1)


def copy_last_week(past: Past, track: Track) -> Outlook:
    """Return the prices of the last week of the past as the outlook, from a past of more than a week."""
    days = np.flatnonzero(past.known)
    days = days[days >= max(WEEK, len(past) - TRACKED_DAYS)]
    error = past.price[days] - past.price[days - WEEK]
    basis = "forecast: the prices of the week before, which err less"
    return Outlook(past.price[-WEEK:], (_errors(error, past),) * AHEAD_DAYS, basis, track, bias_share=0.0)


def judge_forecasts(
    past: Past, track: Track, choice: PredictorChoice, from_day: int, members: tuple[Member, ...]
) -> None:
    """Let the choice learn the errors of each tracked day from local day `from_day` on, hour by hour.

    A day's forecast has the shares that its models had the day before.
    """
    error = np.empty((0, *next(iter(track.values())).shape))
    for day, predictions in sorted(track.items()):
        at = day - past.first_day
        if not 0 <= at < len(past):
            continue
        if day >= from_day and at >= WEEK:
            price = past.price[at]
            given = price - mix_forecasts(predictions, shares(error, predictions, members))
            used = choice.used
            for errors in zip((price - past.price[at - WEEK]).tolist(), given.tolist(), strict=True):
                choice.learn(errors, used)
        error = np.concatenate([error, (past.price[at] - predictions)[None]])


# With errors of so many days, an hour's own mean error counts as much as that of all hours together.
POOLED_DAYS = 7
# Of nine markets' scores, the best half-life of what the last days' errors say of the next one's.
RECENT_DAYS = 4
# The errors of a day grow with this power of how many days ahead it is.
GROWTH = 0.4


def error_offsets(error: Float64, *, ahead: int, bias_share: float = BIAS_SHARE) -> Float64:
    """Return what to add to a day's forecast for each of LEVELS, float64[24, len(LEVELS)], rising along each row.

    `error` float64[days, 24] is price less forecast of the last days; `ahead` is 1 for the coming day.
    """
    if len(error) == 0:
        return np.zeros((24, len(LEVELS)))
    size = np.abs(error)
    scale = (size.sum(axis=0) + POOLED_DAYS * size.mean()) / (len(error) + POOLED_DAYS)
    relative = error / np.maximum(scale, 1e-9)
    quantile = np.quantile(relative, [_conformal(level, len(error)) for level in LEVELS])
    if bias_share:
        quantile[MEDIAN] = np.clip(bias_share * quantile[MEDIAN], quantile[0], quantile[-1])
    else:
        quantile = np.array([min(quantile[0], 0.0), 0.0, max(quantile[-1], 0.0)])
    quantile = quantile[MEDIAN] + _recent_growth(size.mean(axis=1)) * (quantile - quantile[MEDIAN])
    return np.asarray(scale[:, None] * quantile * ahead**GROWTH)


def _recent_growth(size: Float64) -> float:
    """Return how the errors of the last days compare with those of all days, oldest first."""
    weight = 0.5 ** (np.arange(len(size))[::-1] / RECENT_DAYS)
    return float((weight @ size) / max(weight.sum() * size.mean(), 1e-9))


def _conformal(level: float, days: int) -> float:
    # The coming error is as likely to fall into any gap between the past ones or beyond them. The hours of a day err
    # together, so there are as many errors as days.
    return float(np.clip((level * (days + 1) - 1) / max(days - 1, 1), 0.0, 1.0))


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
        days = split_days(self._history, self._zone)
        if len(days.quarter) == 0:
            raise BadPrices("no day of prices is known to forecast from", hint="check the price feed or file")
        inputs = [split_days(each, self._zone) for each in self._inputs.values()]
        past = fill_days(days, ahead=AHEAD_DAYS + 1, holidays=self._holidays, inputs=inputs)
        outlook = look_ahead(past, self._members, self._track)
        self._track = outlook.track
        if self._errs_more(past):
            outlook = copy_last_week(past, outlook.track)
        return _View(past, _quarter_profile(days.quarter), outlook)

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
        return _known_until_s(self._history)

    def input_known_until_s(self, name: str) -> int:
        """Return the end of the last known value of an input [Unix s], 0 if there is none."""
        return _known_until_s(self._inputs[name])

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
        predictions = np.array([*self._track.values()]).reshape(-1, len(self._members), 24)
        days = np.fromiter(self._track, np.int64, len(self._track))
        history = self._history
        own = {**_history_state(history), "day": days, "said": predictions}
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
        self._track = dict(zip(day.tolist(), predictions.astype(np.float64), strict=True)) if made else {}
        choice = state_part(state, "choice")
        if self.fallback is not None and choice:
            self.fallback.restore(choice)
            self._judged_until_day = int(choice["until_day"])
        self._stale = True


def _known_until_s(history: PriceHistory) -> int:
    known = np.flatnonzero(~np.isnan(history.quarters()))
    return history.start_s + QUARTER_S * (int(known[-1]) + 1) if len(known) else 0


def _history_state(history: PriceHistory) -> State:
    return {"start_s": scalar_array(history.start_s), "price": history.price}


def _restored_history(state: State) -> PriceHistory:
    start_s = int(state["start_s"])
    check_state(is_so=start_s % QUARTER_S == 0 and state["price"].ndim == 1, what="no steps of prices")
    return PriceHistory(start_s, QUARTER_S, np.array(state["price"], np.float64))


def _same(one: PriceHistory, other: PriceHistory) -> bool:
    return one.start_s == other.start_s and np.array_equal(one.price, other.price, equal_nan=True)


def _quarter_profile(quarter: Float64) -> Float64:
    by_hour = quarter[-COURSE_DAYS:].reshape(-1, 24, QUARTERS // 24)
    distance = (by_hour - by_hour.mean(axis=2, keepdims=True)).reshape(-1, QUARTERS)
    return np.nan_to_num(mean_known(distance, axis=0))


def _forecast(view: _View, quarter_s: Int64, zone: tzinfo) -> tuple[Float64, Float64]:
    """Return the forecast of each quarter-hour, and the offset from it for each of LEVELS."""
    day, clock_s = np.divmod(to_local_s(quarter_s, zone), DAY_S)
    price = np.vstack([view.past.price, view.outlook.price])
    index = _within(day - view.past.first_day, len(price))
    slot = clock_s // QUARTER_S
    hour = slot // (QUARTERS // 24)
    ahead = np.clip(day - view.past.first_day - len(view.past) + 1, 1, AHEAD_DAYS)
    errors, bias_share = view.outlook.errors, view.outlook.bias_share
    spreads = np.array([error_offsets(error, ahead=d, bias_share=bias_share) for d, error in enumerate(errors, 1)])
    return price[index, hour] + view.quarter_profile[slot], spreads[ahead - 1, hour]


def _within(index: Int64, days: int) -> Int64:
    # Beyond the last day that is forecast, the same weekday of the last week that is.
    weeks = np.maximum(-(-(index - days + 1) // 7), 0)
    return np.asarray(np.clip(index - 7 * weeks, 0, days - 1))


def _by_step(quarters: Float64, question: PriceSteps) -> Float64:
    each = quarters.reshape(question.count, question.step_s // QUARTER_S, *quarters.shape[1:])
    return np.asarray(each.mean(axis=1))
