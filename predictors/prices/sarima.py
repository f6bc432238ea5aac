"""Seasonal ARIMA over the last days: three, as a published metascheduler forecast its prices, or more.

Source: Murali, Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", 2018: "unit order terms for the
autoregressive and moving average seasonal and non-seasonal components", a season of 24 hours, three days to learn from.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64
from predictors.prices.naive import yesterday
from predictors.prices.one_thread import one_thread
from predictors.prices.past import Past

PUBLISHED_DAYS = 3
ORDER = (1, 0, 1)
SEASONAL = (1, 0, 1, 24)


@dataclass(frozen=True)
class Sarima:
    """Learns from the last `days` days."""

    days: int = PUBLISHED_DAYS

    def fit(self, past: Past) -> Callable[[Past], Float64]:
        """Return what forecasts the 24 prices after a past, with the terms of this one's last days.

        It says yesterday's prices where the fit fails or diverges beyond numbers. BadInput without statsmodels.
        """
        _load()
        terms = _or_none(lambda: _terms(self._learned(past)[0]))

        def coming(now: Past) -> Float64:
            known, middle, scale = self._learned(now)
            forecast = None if terms is None else _or_none(lambda: middle + scale * _forecast(known, terms))
            return yesterday(now) if forecast is None else np.where(np.isfinite(forecast), forecast, yesterday(now))

        return coming

    def _learned(self, past: Past) -> tuple[Float64, float, float]:
        """Return the last days' prices as they are learned, and the middle and scale that they were brought to."""
        known = past.price[-self.days :].ravel()
        middle, scale = float(known.mean()), float(known.std()) or 1.0
        return (known - middle) / scale, middle, scale


def _load() -> None:
    # Before `one_thread`, which reaches only what is loaded by then.
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
