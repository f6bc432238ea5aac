"""Distributions of power over jobs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.dynamic_pricing.run import DISTRIBUTIONS, LOWEST_W, draw_power_w
from offpeak_studies.workloads.generate import lublin_jobs

JOBS = lublin_jobs(300, machine_size=64, seed=1)


def drawn_w(distribution: str, ratio: float = 3.0, seed: int = 1) -> np.ndarray:
    return draw_power_w(distribution, ratio, JOBS, np.random.default_rng(seed))


@given(st.sampled_from(sorted(DISTRIBUTIONS)), st.floats(1, 10), st.integers(0, 1000))
def test_power_is_within_the_ratio_and_seeded(distribution: str, ratio: float, seed: int) -> None:
    power_w = drawn_w(distribution, ratio, seed)
    assert len(power_w) == len(JOBS)
    assert power_w.min() >= LOWEST_W
    assert power_w.max() <= ratio * LOWEST_W * (1 + 1e-12)
    assert (power_w == drawn_w(distribution, ratio, seed)).all()


@given(st.integers(0, 1000))
def test_the_ratio_does_not_change_the_order_of_uniform_draws(seed: int) -> None:
    """That is why greedy makes one schedule for all ratios."""
    one, other = (np.argsort(drawn_w("uniform", ratio, seed), kind="stable") for ratio in (2.0, 4.0))
    assert (one == other).all()


def test_kinds_of_jobs_draw_as_their_name_says() -> None:
    for distribution, kinds in [("two kinds", 2), ("three kinds", 3)]:
        assert sorted(set(drawn_w(distribution))) == np.linspace(100, 300, kinds).tolist()
    power_w = drawn_w("by user")
    assert all(len(set(power_w[JOBS.user == user])) == 1 for user in set(JOBS.user.tolist()))
    for distribution, value in [("wide jobs hungry", JOBS.size), ("heavy jobs hungry", JOBS.size * JOBS.runtime_s)]:
        by_power = value[np.argsort(drawn_w(distribution))]
        assert (np.diff(by_power) >= 0).all()
