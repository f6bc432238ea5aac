"""Arrivals: the span that is asked for, the same stretch for all kinds of jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.lublin_model import BATCH, INTERACTIVE, Arrivals, draw_arrivals, stretched


def drawn(count: int, seed: int) -> tuple[Arrivals, ...]:
    rng = np.random.default_rng(seed)
    return draw_arrivals(count, BATCH, rng), draw_arrivals(2 * count, INTERACTIVE, rng)


@given(st.integers(2, 200), st.floats(10, 1e8), st.integers(0, 99))
def test_the_span_is_the_requested_one(count: int, span_s: float, seed: int) -> None:
    for kinds in (drawn(count, seed)[:1], drawn(count, seed)):
        submit_s = np.sort(np.concatenate([kind.submit_s() for kind in stretched(kinds, span_s)]))
        assert abs(submit_s[-1] - submit_s[0] - span_s) <= 1
        assert abs(submit_s[0] - min(kind.submit_s()[0] for kind in kinds)) <= 1


@given(st.integers(2, 200), st.floats(10, 1e8), st.integers(0, 99))
def test_all_kinds_are_stretched_alike_in_even_time(count: int, span_s: float, seed: int) -> None:
    kinds = drawn(count, seed)
    scales = [
        (after.even_s[-1] - after.even_s[0]) / (before.even_s[-1] - before.even_s[0])
        for before, after in zip(kinds, stretched(kinds, span_s), strict=True)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)


@given(st.integers(1, 500), st.integers(0, 99))
def test_jobs_come_in_order(count: int, seed: int) -> None:
    submit_s = draw_arrivals(count, BATCH, np.random.default_rng(seed)).submit_s()
    assert len(submit_s) == count
    assert submit_s[0] >= 0
    assert (np.diff(submit_s) >= 0).all()
