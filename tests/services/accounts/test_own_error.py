"""The errors of recent forecasts."""

import pytest

from services.accounts.job_forecasts import LATEST_ERRORS, ForecastErrors


def test_error_is_unknown_before_the_first_outcome() -> None:
    assert (ForecastErrors().mae, ForecastErrors().outcomes) == (None, 0)


def test_error_counts_both_directions_and_drops_old_outcomes() -> None:
    error = ForecastErrors()
    error.add([-2.0, 4.0])
    assert (error.mae, error.outcomes) == (3.0, 2)
    error.add([1.0] * LATEST_ERRORS)
    assert (error.mae, error.outcomes) == (pytest.approx(1.0), LATEST_ERRORS)
