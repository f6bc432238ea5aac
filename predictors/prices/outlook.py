"""The days that follow a past: their prices by the ensemble, and how far these may be wrong.

The quantiles are those of the ensemble's own last errors, scaled by the size of each hour's and of the last days': a
split conformal interval on a sliding window, by hour. No distribution is assumed, and the interval widens and narrows
as the errors do. Source of the idea: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64
from offpeak.predictors.choice import ChoiceRule, PredictorChoice
from offpeak.predictors.port import LEVELS, MEDIAN
from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.models import (
    ENOUGH_DAYS,
    WEEK,
    Member,
    fit_all,
    forecasts,
    mix_forecasts,
    one_thread,
    shares,
)
from offpeak.text import counted

AHEAD_DAYS = 7
# The number of days of forecasts on which the weights of the models and the intervals are based.
TRACKED_DAYS = 28
# The share of the recent bias that is corrected: the best value over the first years of five markets.
BIAS_SHARE = 0.5


class TrackedDay(NamedTuple):
    """Each member's forecast of a local day, float64[members, 24]; bit i of `inputs` is set if input i was known."""

    forecast: Float64
    inputs: int = 0


Track = Mapping[int, TrackedDay]
"""The tracked days by their local day numbers."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What follows a past.

    `price` float64[AHEAD_DAYS, 24] are the following days; `errors[i]` float64[days, 24] is price minus forecast of the
    previous days by the models that forecast the day `i` days later; `basis[i]` describes the basis of its forecast;
    `track` is the state for the next outlook. The median is corrected by `bias_share` of the recent bias.
    """

    price: Float64
    errors: tuple[Float64, ...]
    basis: tuple[str, ...]
    track: Track
    bias_share: float = BIAS_SHARE


@one_thread
def look_ahead(past: Past, members: tuple[Member, ...], before: Track) -> Outlook:
    """Return the outlook from a past of at least one day; what `before` lacks is made up for from earlier pasts.

    Raises BadPrices if the past is too short for every member.
    """
    models = fit_all(members, past)
    coming = TrackedDay(forecasts(models, past), _known_inputs(past))
    if np.isnan(coming.forecast).all():
        least = min(members, key=lambda member: member.days)
        raise BadPrices(
            f"{least.name} needs {least.days} whole days of prices, and {int(past.known.sum())} are known",
            hint="load older prices, or use the ensemble until there are as many",
        )
    days = [int(day) for day in np.flatnonzero(past.known) if day >= max(1, len(past) - TRACKED_DAYS)]
    track = {past.first_day + day: _member_forecasts(past, day, members, before) for day in days}
    every = past.price[days, None] - np.array([day.forecast for day in track.values()]).reshape(-1, len(members), 24)
    price, errors, basis, extended = np.empty((AHEAD_DAYS, 24)), list[Float64](), list[str](), past
    for ahead in range(AHEAD_DAYS):
        said = forecasts(models, extended) if ahead else coming.forecast
        error = every if ahead else _with_the_same_inputs(every, [*track.values()], coming, members)
        share = shares(error, said, members)
        price[ahead] = mix_forecasts(said, share)
        errors.append(_errors(mix_forecasts(error, share), past))
        most = sorted(range(len(members)), key=lambda i: -share[i])[:3]
        parts = ", ".join(f"{members[i].name} {share[i]:.0%}" for i in most if share[i] >= 0.005)
        basis.append(f"forecast from {counted(int(past.known.sum()), 'day')}: {parts}")
        extended = extended.followed_by(price[ahead])
    track[past.first_day + len(past)] = coming
    return Outlook(price, tuple(errors), tuple(basis), track)


def _known_inputs(past: Past) -> int:
    coming = past.inputs_known()[len(past) : len(past) + 1]
    return sum(1 << int(each) for each in np.flatnonzero(coming))


def _with_the_same_inputs(
    error: Float64, days: Sequence[TrackedDay], coming: TrackedDay, members: tuple[Member, ...]
) -> Float64:
    """Return the errors of the days, without those that members made with other inputs than the coming day has."""
    others = np.array([day.inputs != coming.inputs for day in days], np.bool_)
    has_inputs = np.array([member.inputs for member in members])
    return np.where(others[:, None, None] & has_inputs[:, None], np.nan, error)


def _errors(error: Float64, past: Past) -> Float64:
    complete = error[~np.isnan(error).any(axis=1)]
    # After a single day there is no forecast yet: any hour may have the price of any other.
    return complete if len(complete) else past.price[-1:] - past.price[-1].mean()


def _member_forecasts(past: Past, day: int, members: tuple[Member, ...], before: Track) -> TrackedDay:
    tracked = before.get(past.first_day + day)
    if tracked is not None:
        return tracked
    # Which values of an input were known before that day, nobody knows any more.
    earlier = replace(past.until(day), inputs=np.empty((0, 0, 24)))
    return TrackedDay(forecasts(fit_all(members, earlier), earlier))


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
    basis = ("forecast: the prices of the week before, which err less",) * AHEAD_DAYS
    return Outlook(past.price[-WEEK:], (_errors(error, past),) * AHEAD_DAYS, basis, track, bias_share=0.0)


def judge_forecasts(
    past: Past, track: Track, choice: PredictorChoice, from_day: int, members: tuple[Member, ...]
) -> None:
    """Let the choice learn the hourly errors of days from `from_day` on, by the shares of the day before each."""
    error, before = np.empty((0, len(members), 24)), list[TrackedDay]()
    for day, tracked in sorted(track.items()):
        at = day - past.first_day
        if not 0 <= at < len(past):
            continue
        if day >= from_day and at >= WEEK:
            price = past.price[at]
            share = shares(_with_the_same_inputs(error, before, tracked, members), tracked.forecast, members)
            given = price - mix_forecasts(tracked.forecast, share)
            used = choice.used
            for errors in zip((price - past.price[at - WEEK]).tolist(), given.tolist(), strict=True):
                choice.learn(errors, used)
        error = np.concatenate([error, (past.price[at] - tracked.forecast)[None]])
        before.append(tracked)


# With errors of so many days, an hour's own mean error counts as much as that of all hours together.
POOLED_DAYS = 7
# Of nine markets' scores, the best half-life of what the last days' errors say of the next one's.
RECENT_DAYS = 3
# A day of spikes counts as so many usual days at most.
SPIKE = 3
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
    usual = np.minimum(size, SPIKE * np.median(size))
    weight = 0.5 ** (np.arange(len(size))[::-1] / RECENT_DAYS)
    return float((weight @ usual) / (weight.sum() * usual.mean())) if usual.any() else 1.0


def _conformal(level: float, days: int) -> float:
    # The coming error is as likely to fall into any gap between the past ones or beyond them. The hours of a day err
    # together, so there are as many errors as days.
    return float(np.clip((level * (days + 1) - 1) / max(days - 1, 1), 0.0, 1.0))
