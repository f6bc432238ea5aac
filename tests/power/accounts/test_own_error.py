"""How wrong predictors were of late."""

import pytest

from power.accounts.own_error import LATE, OwnError


def test_before_the_first_outcome_nobody_knows() -> None:
    assert (OwnError().mae, OwnError().outcomes) == (None, 0)


def test_either_direction_counts_and_old_errors_do_not() -> None:
    error = OwnError()
    error.add([-2.0, 4.0])
    assert (error.mae, error.outcomes) == (3.0, 2)
    error.add([1.0] * LATE)
    assert (error.mae, error.outcomes) == (pytest.approx(1.0), LATE)
