"""The coming days as the ensemble sees them from a past, with the errors it made of late."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from offpeak.errors import BadPrices
from offpeak.model.arrays import Float64
from predictors.prices.ensemble import mixed, shares
from predictors.prices.members import Member, Model, fit_all, forecasts
from predictors.prices.one_thread import one_thread
from predictors.prices.past import Past

AHEAD_DAYS = 7
# For so many days the shares of the models and the intervals rest on what was forecast.
TRACKED_DAYS = 28

Track = Mapping[int, Float64]
"""What each member said of a local day before it began: day number -> float64[members, 24]."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What follows a past.

    `price` float64[AHEAD_DAYS, 24] are the days after it; `error` float64[days, 24] is price less forecast of the days
    before; `basis` says in words what the forecast rests on; `track` is what the next outlook can build on.
    """

    price: Float64
    error: Float64
    basis: str
    track: Track


@one_thread
def look_ahead(past: Past, members: tuple[Member, ...], before: Track) -> Outlook:
    """Return the outlook from a past of at least one day; what `before` lacks is made up for from earlier pasts.

    BadPrices if the past is too short for every member.
    """
    models = fit_all(members, past)
    coming = forecasts(models, past)
    _check_any(coming, past, members)
    days = [int(day) for day in np.flatnonzero(past.known) if day >= max(1, len(past) - TRACKED_DAYS)]
    track = {past.first_day + day: _said(past, day, members, before) for day in days}
    said = np.array([*track.values()]).reshape(-1, *coming.shape)
    share = shares(past.price[days, None] - said, coming)
    price = _days_ahead(past, models, share)
    track[past.first_day + len(past)] = coming
    return Outlook(price, _errors(past.price[days] - mixed(said, share), past), _basis(past, members, share), track)


def _errors(error: Float64, past: Past) -> Float64:
    told = error[~np.isnan(error).any(axis=1)]
    # After a single day nothing was forecast yet: any hour's price may come at any hour.
    return told if len(told) else past.price[-1:] - past.price[-1].mean()


def _check_any(coming: Float64, past: Past, members: tuple[Member, ...]) -> None:
    if np.isnan(coming).all():
        least = min(members, key=lambda member: member.days)
        raise BadPrices(
            f"{least.name} needs {least.days} whole days of prices, and {int(past.known.sum())} are known",
            hint="load older prices, or use the ensemble until there are as many",
        )


def _said(past: Past, day: int, members: tuple[Member, ...], before: Track) -> Float64:
    said = before.get(past.first_day + day)
    if said is not None:
        return said
    earlier = past.until(day)
    return forecasts(fit_all(members, earlier), earlier)


def _days_ahead(past: Past, models: tuple[Model | None, ...], share: Float64) -> Float64:
    extended = past
    while len(extended) < len(past) + AHEAD_DAYS:
        extended = extended.followed_by(mixed(forecasts(models, extended), share))
    return extended.price[len(past) :]


def _basis(past: Past, members: tuple[Member, ...], share: Float64) -> str:
    most = sorted(range(len(members)), key=lambda i: -share[i])[:3]
    parts = ", ".join(f"{members[i].name} {share[i]:.0%}" for i in most if share[i] >= 0.005)
    return f"forecast from {int(past.known.sum())} days: {parts}"
