"""Seasonal ARIMA over the last three days, as a published metascheduler forecast its prices.

Source: Murali, Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", 2018: "unit order terms for the
autoregressive and moving average seasonal and non-seasonal components", a season of 24 hours, three days to learn from.
"""

import warnings

import numpy as np

from offpeak.errors import BadInput
from offpeak.jobs import Float64
from predictors.prices.naive import yesterday
from predictors.prices.one_thread import one_thread
from predictors.prices.past import Past

LEARNED_DAYS = 3
ORDER = (1, 0, 1)
SEASONAL = (1, 0, 1, 24)


def sarima(past: Past) -> Float64:
    """Return the coming day's 24 prices; yesterday's where the fit fails or diverges beyond numbers.

    BadInput where statsmodels is not installed.
    """
    _load()
    known = past.price[-LEARNED_DAYS:].ravel()
    scale = float(known.std()) or 1.0
    try:
        forecast = known.mean() + scale * _forecast((known - known.mean()) / scale)
    except (np.linalg.LinAlgError, ValueError):
        return yesterday(past)
    return np.where(np.isfinite(forecast), forecast, yesterday(past))


def _load() -> None:
    # Before `one_thread`, which reaches only what is loaded by then.
    try:
        import statsmodels.tsa.statespace.sarimax  # noqa: F401
    except ImportError:
        raise BadInput(
            "SARIMA needs statsmodels, which is not installed", hint="`pip install 'offpeak[predictors]'`"
        ) from None


@one_thread
def _forecast(known: Float64) -> Float64:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Three days are few for four terms: it warns of its start values and of its convergence nearly every time.
        warnings.simplefilter("ignore")
        return np.asarray(SARIMAX(known, order=ORDER, seasonal_order=SEASONAL).fit(disp=0).forecast(24))
