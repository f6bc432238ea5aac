"""A shifted clock is found, another auction contradicts, and a good answer is neither."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_series import Series
from offpeak.predictors.feeds.feed import HOURS_NEEDED, contradicts, hourly, shift_h

pytestmark = pytest.mark.quick

HOUR = 3600
CANDIDATES = frozenset({-2, -1, 1, 2})


def prices(seed: int, *, hours: int = 48, from_h: int = 480_000, step_s: int = HOUR) -> Series:
    value = np.random.default_rng(seed).uniform(-100, 300, hours).repeat(HOUR // step_s)
    start_s = HOUR * from_h + step_s * np.arange(len(value), dtype=np.int64)
    return Series(start_s, int(start_s[-1]) + step_s, value, "EUR/MWh", "test")


def moved(series: Series, hours: int) -> Series:
    return Series(series.start_s + HOUR * hours, series.end_s + HOUR * hours, series.value, series.unit, series.source)


@given(st.integers(0, 10**6), st.sampled_from(sorted(CANDIDATES)), st.sampled_from([900, 1800, 3600]))
def test_a_shift_is_found(seed, hours, step_s):
    last = prices(seed, step_s=step_s)
    assert shift_h(moved(last, hours), last, CANDIDATES) == hours


@given(st.integers(0, 10**6), st.sampled_from([900, 3600]), st.integers(0, 30))
def test_a_good_answer_neither_is_shifted_nor_contradicts(seed, step_s, later_h):
    last = prices(seed)
    fine = prices(seed, hours=48, step_s=step_s)
    fine = Series(fine.start_s, fine.end_s, fine.value.round(2), fine.unit, fine.source)
    both = Series(fine.start_s[later_h:], fine.end_s, fine.value[later_h:], fine.unit, fine.source)
    assert shift_h(both, last, CANDIDATES) == 0
    assert not contradicts(both, last)


@given(st.integers(0, 10**6))
def test_another_zone_contradicts_and_is_no_shift(seed):
    last, other = prices(seed), prices(seed + 1)
    assert shift_h(other, last, CANDIDATES) == 0
    assert contradicts(other, last)


def test_a_few_common_hours_prove_nothing():
    last = prices(1)
    other = prices(2, from_h=480_000 + 48 - HOURS_NEEDED + 1)
    assert not contradicts(other, last)
    assert shift_h(moved(last, 48 - HOURS_NEEDED + 3), last, CANDIDATES) == 0


def test_equal_values_have_no_shift():
    flat = Series(np.arange(24) * HOUR, 24 * HOUR, np.full(24, 50.0), "EUR/MWh", "test")
    assert shift_h(moved(flat, 1), flat, CANDIDATES) == 0


@pytest.mark.parametrize("step_s", [900, 1800, 3600])
def test_means_of_whole_hours(step_s):
    series = prices(3, hours=4, from_h=10, step_s=step_s)
    means = hourly(series, 9, 6)
    np.testing.assert_array_equal(np.isnan(means), [True, False, False, False, False, True])
    np.testing.assert_allclose(means[1:5], series.value[:: HOUR // step_s])
