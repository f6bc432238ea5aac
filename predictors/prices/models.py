"""The models of the price ensemble, in one visible tuple: naive ones, a blend of them, SARIMA and LEAR; their shares.

* Naive: the prices of yesterday or a week ago, or the week's mean. Every other model must be better. * Blend of the
three, for the first weeks: five coefficients for all hours, by a ridge regression whose penalty pulls
  towards plausible coefficients, not to zero, so that the data count more as they grow.
* Seasonal ARIMA over the last days. Source: Murali, Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity
  markets", 2018: "unit order terms for the autoregressive and moving average seasonal and non-seasonal components", a
  season of 24 hours, three days to learn from.

Small matrices are computed on one thread: on a busy machine, threads that wait for each other take ten times as long.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64
from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.lear import Lear, fit_scale

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` with a linear algebra that uses one thread; with as many as it takes without threadpoolctl."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # It comes with scikit-learn, which these models do not need.
            from threadpoolctl import threadpool_limits
        except ImportError:
            return function(*args, **kwargs)
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone


WEEK = 7


def yesterday(past: Past) -> Float64:
    """Return the prices of the day before, float64[24]."""
    return np.asarray(past.price[-1])


def last_week(past: Past) -> Float64:
    """Return the prices of the same day a week before, float64[24]; the day before's while there is no week yet."""
    return np.asarray(past.price[-WEEK if len(past) >= WEEK else -1])


def week_mean(past: Past) -> Float64:
    """Return the mean of each hour over the last seven days, or as many as there are, float64[24]."""
    return np.asarray(past.price[-WEEK:].mean(axis=0))


LEARNED_DAYS = 28
# Of the distances to the week's mean: yesterday's hour, the day before's, last week's, yesterday's level and evening.
PLAUSIBLE = np.array([0.4, 0.0, 0.2, 0.0, 0.1])
# So many days of data weigh as much as the plausible coefficients.
TRUST_DAYS = 30
EVENING = 20


def fit_blend(past: Past) -> Callable[[Past], Float64]:
    """Fit a forecaster of the 24 prices after a past to the last four weeks of this one."""
    scale = fit_scale(past.price[-LEARNED_DAYS:])
    squeezed = scale.squeeze(past.price)
    days = range(max(2, len(past) - LEARNED_DAYS), len(past))
    rows = [_distances(squeezed[:day]) for day in days if past.known[day]]
    targets = [squeezed[day] - _week_mean(squeezed[:day]) for day in days if past.known[day]]
    share = _pulled(np.vstack(rows), np.concatenate(targets)) if rows else PLAUSIBLE

    def coming(now: Past) -> Float64:
        week = scale.squeeze(now.price[-WEEK:])
        return scale.widen(_week_mean(week) + _distances(week) @ share)

    return coming


def _pulled(x: Float64, y: Float64) -> Float64:
    pull = TRUST_DAYS * 24 * (np.mean(x**2) + 1e-9)
    solved = np.linalg.solve(x.T @ x + pull * np.eye(x.shape[1]), x.T @ (y - x @ PLAUSIBLE))
    return np.asarray(PLAUSIBLE + solved)


def _week_mean(squeezed: Float64) -> Float64:
    return np.asarray(squeezed[-WEEK:].mean(axis=0))


def _distances(squeezed: Float64) -> Float64:
    mean = _week_mean(squeezed)
    yesterday = squeezed[-1] - mean
    before = squeezed[max(-2, -len(squeezed))] - mean
    week_ago = squeezed[-WEEK] - mean if len(squeezed) >= WEEK else np.zeros(24)
    level, evening = np.full(24, yesterday.mean()), np.full(24, yesterday[EVENING:].mean())
    return np.stack([yesterday, before, week_ago, level, evening], axis=1)


PUBLISHED_DAYS = 3
ORDER = (1, 0, 1)
SEASONAL = (1, 0, 1, 24)


@dataclass(frozen=True)
class Sarima:
    """Learns from the last `days` days."""

    days: int = PUBLISHED_DAYS

    def fit(self, past: Past) -> Callable[[Past], Float64]:
        """Return what forecasts the 24 prices after a past, with the terms of this one's last days.

        It predicts yesterday's prices if the fit fails or diverges. Raises BadInput without statsmodels.
        """
        need_statsmodels()
        terms = _or_none(lambda: _terms(self._learned(past)[0]))

        def coming(now: Past) -> Float64:
            known, middle, scale = self._learned(now)
            forecast = None if terms is None else _or_none(lambda: middle + scale * _forecast(known, terms))
            return yesterday(now) if forecast is None else np.where(np.isfinite(forecast), forecast, yesterday(now))

        return coming

    def _learned(self, past: Past) -> tuple[Float64, float, float]:
        """Return the last days' normalised prices, and the centre and scale of the normalisation."""
        known = past.price[-self.days :].ravel()
        middle, scale = float(known.mean()), float(known.std()) or 1.0
        return (known - middle) / scale, middle, scale


def need_statsmodels() -> None:
    """Raise BadInput without statsmodels."""
    # Import it before `one_thread`, which affects only loaded libraries.
    try:
        import statsmodels.tsa.statespace.sarimax  # noqa: F401
    except ImportError:
        raise missing_extra("SARIMA", "predictors", "statsmodels") from None


def _or_none(answer: Callable[[], Float64]) -> Float64 | None:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # Three days are few for four terms: it warns of its start values and of its convergence nearly every time.
            warnings.simplefilter("ignore")
            return answer()
    except (np.linalg.LinAlgError, ValueError):
        return None


@one_thread
def _terms(known: Float64) -> Float64:
    return np.asarray(_model(known).fit(disp=0, cov_type="none").params)


@one_thread
def _forecast(known: Float64, terms: Float64) -> Float64:
    return np.asarray(_model(known).filter(terms, cov_type="none").forecast(24))


def _model(known: Float64) -> Any:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    return SARIMAX(known, order=ORDER, seasonal_order=SEASONAL)


Model = Callable[[Past], Float64]
"""Returns the 24 prices of the day after a past."""


@dataclass(frozen=True)
class Member:
    """A model, its name, how many known days it needs, and `fit`; with `inputs` for days with known inputs only."""

    name: str
    fit: Callable[[Past], Model]
    days: int = 0
    inputs: bool = False


@dataclass(frozen=True)
class Unfitted:
    """A model without parameters."""

    model: Model

    def fit(self, past: Past) -> Model:  # noqa: ARG002 - as every model's
        """Return the model itself."""
        return self.model


# With fewer days a lasso over a hundred features is worse than the blend.
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

WITH_INPUTS = tuple(
    Member(f"LEAR of {name} with inputs", Lear(days, penalty=penalty, inputs=True).fit, LEAR_DAYS, inputs=True)
    for name, days, penalty in (("8 weeks", 56, 0.05), ("a year", 364, 0.01), ("two years", 728, 0.005))
)
PRICES_ALONE = (BLEND, LEAR, LEAR_LEVEL, LEAR_RECENT)
MEMBERS = (*PRICES_ALONE, *WITH_INPUTS)
SINGLE = (YESTERDAY, LAST_WEEK, WEEK_MEAN, SARIMA, SARIMA_LONG, *PRICES_ALONE)
"""The members that can be scored alone, such as `PricePredictor(zone, members=(SARIMA,))`."""


def forecasts(models: tuple[Model | None, ...], past: Past) -> Float64:
    """Return the forecasts of all models for the day after the past, float64[models, 24]; NaN without a model."""
    silent = np.full(24, np.nan)
    return np.array([silent if model is None else model(past) for model in models])


def fit_all(members: tuple[Member, ...], past: Past) -> tuple[Model | None, ...]:
    """Return the fitted model of each member, None of those for which the past is too short."""
    return tuple(member.fit(past) if past.known.sum() >= member.days else None for member in members)


# Half the error counts 2 to that power as much.
SHARPNESS = 4
# A model that was right for fewer days may have been lucky.
ENOUGH_DAYS = 7


def shares(error: Float64, speaking: Float64, members: Sequence[Member]) -> Float64:
    """Return each member's share, float64[members], that sum to 1: of those with inputs if they erred less than those
    without, else of those without.

    `error` float64[days, members, 24] are past errors, NaN if a member has no forecast; `speaking` float64[members, 24]
    are the forecasts that the shares are for. A model counts nothing while another one has been judged for longer.
    """
    speaks = ~np.isnan(speaking).any(axis=1)
    days = np.where(speaks, (~np.isnan(error).any(axis=2)).sum(axis=0), 0)
    if days.max() == 0:
        return np.asarray(speaks / speaks.sum())
    judged = days >= min(ENOUGH_DAYS, days.max())
    has_inputs = np.array([member.inputs for member in members])
    groups = [_shares_of(error, group) for group in (judged & has_inputs, judged & ~has_inputs) if group.any()]
    mixed = np.abs([mix_forecasts(error, share) for share in groups])
    both = ~np.isnan(mixed).any(axis=(0, 2))
    return groups[int(np.argmin(mixed[:, both].mean(axis=(1, 2))))] if both.any() else groups[-1]


def _shares_of(error: Float64, judged: NDArray[np.bool_]) -> Float64:
    wrong = np.nanmean(np.abs(error[:, judged]), axis=(0, 2))
    # In relation to the best, so that no power of a small or large error leaves the range of numbers.
    best = max(float(wrong.min()), 1e-9)
    share = np.zeros(len(judged))
    share[judged] = (best / np.maximum(wrong, best)) ** SHARPNESS
    return share / float(share.sum())


def mix_forecasts(forecast: Float64, share: Float64) -> Float64:
    """Return the mean of forecasts float64[..., models, 24] by these shares, float64[..., 24].

    Where a model is silent (NaN) the others' shares grow; NaN if all that have a share are.
    """
    weight = np.where(np.isnan(forecast), 0.0, share[:, None])
    total = weight.sum(axis=-2)
    summed = (weight * np.nan_to_num(forecast)).sum(axis=-2)
    return np.asarray(np.divide(summed, total, out=np.full(summed.shape, np.nan), where=total > 0))
