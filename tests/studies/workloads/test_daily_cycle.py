"""The daily cycle: even time against the clock."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.lublin_model import (
    BATCH,
    INTERACTIVE,
    TYPELESS,
    Lublin,
    clock_s,
    even_s,
    half_hour_weights,
)

WEIGHTS = half_hour_weights(BATCH.half_hour)


@pytest.mark.parametrize("model", [BATCH, INTERACTIVE, TYPELESS])
def test_a_day_has_48_half_hours_of_mean_weight_one_with_the_peak_after_noon(model: Lublin) -> None:
    weights = half_hour_weights(model.half_hour)
    assert weights.shape == (48,)
    assert weights.mean() == pytest.approx(1)
    assert 24 <= weights.argmax() <= 32
    assert 6 <= weights.argmin() <= 11


@given(st.floats(0, 1e9))
def test_clock_and_even_time_are_inverse_to_each_other(instant_s: float) -> None:
    assert clock_s(np.array([even_s(instant_s, WEIGHTS)]), WEIGHTS)[0] == pytest.approx(instant_s, abs=1e-3)


@given(st.integers(0, 10_000), st.floats(0, 86_400))
def test_whole_days_are_the_same_on_both(days: int, rest_s: float) -> None:
    assert even_s(days * 86_400.0, WEIGHTS) == days * 86_400
    clock = clock_s(np.array([rest_s, rest_s + days * 86_400.0]), WEIGHTS)
    assert clock[1] - clock[0] == pytest.approx(days * 86_400, abs=1e-3)


def walk(gaps_s: list[float], weights: list[float]) -> list[float]:
    """Pay each gap in points, half hour by half hour, as the model's description says."""
    bucket, into, arrivals = 0, 0.0, []
    for gap in gaps_s:
        points = gap / 1800
        while points > (1 - into) * weights[bucket % 48]:
            points -= (1 - into) * weights[bucket % 48]
            bucket, into = bucket + 1, 0.0
        into += points / weights[bucket % 48]
        arrivals.append((bucket + into) * 1800)
    return arrivals


@given(st.lists(st.floats(0, 500_000), min_size=1, max_size=30))
def test_all_jobs_at_once_arrive_as_in_the_walk_from_bucket_to_bucket(gaps_s: list[float]) -> None:
    np.testing.assert_allclose(clock_s(np.cumsum(gaps_s), WEIGHTS), walk(gaps_s, WEIGHTS.tolist()), atol=1e-3)
