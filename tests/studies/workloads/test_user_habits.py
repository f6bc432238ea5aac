"""Users, estimates and power of generated logs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.generate import (
    COMMON_ESTIMATES_S,
    USERS,
    draw_estimates_s,
    draw_node_power_w,
    draw_user_power_w,
    draw_users,
    round_estimates_s,
)


@given(st.integers(1, 10**9))
def test_an_estimate_is_the_next_common_one(needed_s: int) -> None:
    estimate_s = int(round_estimates_s(np.array([needed_s]))[0])
    choices = [*COMMON_ESTIMATES_S.tolist(), -(-needed_s // 86_400) * 86_400]
    assert estimate_s == min(choice for choice in choices if choice >= needed_s)


@given(st.lists(st.integers(1, 2**31), min_size=1, max_size=50), st.integers(0, 99))
def test_estimates_are_at_least_the_run_time(runtime_s: list[int], seed: int) -> None:
    estimate_s = draw_estimates_s(np.array(runtime_s), np.random.default_rng(seed))
    assert (estimate_s >= runtime_s).all()


def test_the_most_active_user_submits_twice_as_much_as_the_second() -> None:
    submitted = np.bincount(draw_users(100_000, np.random.default_rng(1)), minlength=USERS + 1)
    assert submitted[0] == 0
    assert 1.9 < submitted[1] / submitted[2] < 2.1
    assert submitted[USERS] > 0


def test_each_user_has_a_power_of_his_own() -> None:
    rng = np.random.default_rng(1)
    user_power_w = draw_user_power_w(rng)
    user = np.repeat(np.arange(1, USERS + 1), 400)
    power_w = draw_node_power_w(user, user_power_w, rng).reshape(USERS, 400)
    assert user_power_w.min() >= 100
    assert user_power_w.max() <= 300
    np.testing.assert_allclose(power_w.mean(axis=1), user_power_w, rtol=0.02)
    np.testing.assert_allclose(power_w.std(axis=1) / user_power_w, 0.05, atol=0.01)
