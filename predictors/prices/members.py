"""The models of the ensemble, in one visible tuple."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from predictors.prices.blend import fit_blend
from predictors.prices.lear import Lear
from predictors.prices.naive import last_week, week_mean, yesterday
from predictors.prices.past import Past
from predictors.prices.sarima import Sarima

Model = Callable[[Past], Float64]
"""Returns the 24 prices of the day after a past."""


@dataclass(frozen=True)
class Member:
    """A model, its name in tables, and how many known days it needs; `fit` learns from a past."""

    name: str
    fit: Callable[[Past], Model]
    days: int = 0


@dataclass(frozen=True)
class Unfitted:
    """A model that has nothing to learn."""

    model: Model

    def fit(self, past: Past) -> Model:  # noqa: ARG002 - as every model's
        """Return the model itself."""
        return self.model


# Below so many days a lasso over a hundred features is worse than the blend.
LEAR_DAYS = 42

YESTERDAY = Member("yesterday", Unfitted(yesterday).fit)
LAST_WEEK = Member("last week", Unfitted(last_week).fit)
WEEK_MEAN = Member("week's mean", Unfitted(week_mean).fit)
BLEND = Member("blend", fit_blend)
SARIMA = Member("SARIMA", Sarima().fit)
SARIMA_LONG = Member("SARIMA of two weeks", Sarima(days=14).fit)
LEAR = Member("LEAR", Lear().fit, LEAR_DAYS)
LEAR_LEVEL = Member("LEAR from the day's level", Lear(penalty=0.04, level_days=1).fit, LEAR_DAYS)
LEAR_RECENT = Member("LEAR of recent days", Lear(half_life_days=120, penalty=0.05, level_days=1).fit, LEAR_DAYS)

MEMBERS = (BLEND, LEAR, LEAR_LEVEL, LEAR_RECENT)
SINGLE = (YESTERDAY, LAST_WEEK, WEEK_MEAN, SARIMA, SARIMA_LONG, *MEMBERS)
"""What can be scored alone, such as `PricePredictor(zone, members=(SARIMA,))`."""


def forecasts(models: tuple[Model | None, ...], past: Past) -> Float64:
    """Return what each model says of the day after the past, float64[models, 24], NaN from one that has no model."""
    silent = np.full(24, np.nan)
    return np.array([silent if model is None else model(past) for model in models])


def fit_all(members: tuple[Member, ...], past: Past) -> tuple[Model | None, ...]:
    """Return the fitted model of each member, None of those for which the past is too short."""
    return tuple(member.fit(past) if past.known.sum() >= member.days else None for member in members)
