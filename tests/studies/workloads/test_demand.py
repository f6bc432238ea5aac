"""Sizes and run times of all kinds of jobs, on machines of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.workloads.lublin_model import BATCH, INTERACTIVE, TYPELESS, JobDemand, Lublin, draw_demand


@given(st.integers(1, 500), st.integers(1, 10**8), st.integers(0, 99), st.sampled_from([BATCH, INTERACTIVE, TYPELESS]))
def test_jobs_fit_the_machine_and_end(count: int, machine_size: int, seed: int, model: Lublin) -> None:
    demand = draw_demand(count, model, machine_size, np.random.default_rng(seed))
    assert len(demand.size) == len(demand.runtime_s) == count
    assert demand.size.min() >= 1
    assert demand.size.max() <= machine_size
    assert (demand.runtime_s >= 1).all()
    assert (demand.runtime_s <= np.exp(12)).all()


def test_interactive_jobs_are_narrow_and_short() -> None:
    rng = np.random.default_rng(1)
    batch, interactive = (draw_demand(20_000, model, 128, rng) for model in (BATCH, INTERACTIVE))
    assert batch.size.max() == 128
    assert interactive.size.max() == 45
    assert np.median(interactive.runtime_s) < np.median(batch.runtime_s) / 10


def test_a_load_takes_its_time() -> None:
    demand = JobDemand(np.array([2, 3]), np.array([10, 20]))
    assert demand.span_s(machine_size=4, load=0.5) == pytest.approx(40)
