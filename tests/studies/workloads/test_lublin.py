"""The generated logs keep the model's laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.jobs import Jobs
from offpeak_studies.workloads.generate import lublin_jobs
from offpeak_studies.workloads.lublin_model import BATCH, INTERACTIVE, TYPELESS, Lublin

pytestmark = pytest.mark.quick


def offered_load(jobs: Jobs, machine_size: int) -> float:
    return float((jobs.size * jobs.runtime_s).sum() / (machine_size * (jobs.submit_s[-1] - jobs.submit_s[0])))


@given(st.integers(1, 500), st.integers(1, 10_000), st.integers(0, 99), st.sampled_from([BATCH, INTERACTIVE, TYPELESS]))
def test_every_log_could_have_happened(count: int, machine_size: int, seed: int, model: Lublin) -> None:
    jobs = lublin_jobs(count, machine_size=machine_size, seed=seed, model=model)
    assert len(jobs) == count
    assert jobs.size.max() <= machine_size
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert jobs.submit_s[0] >= 0
    assert (jobs.estimate_s >= jobs.runtime_s).all()
    assert (jobs.estimate_s <= 5 * jobs.runtime_s + 86_400).all()
    assert (jobs.node_power_w > 0).all()


@given(st.integers(100, 2000), st.floats(0.01, 3), st.integers(0, 99))
def test_the_load_is_the_requested_one(count: int, load: float, seed: int) -> None:
    jobs = lublin_jobs(count, machine_size=128, seed=seed, load=load)
    span_s = jobs.submit_s[-1] - jobs.submit_s[0]
    assert offered_load(jobs, 128) == pytest.approx(load, rel=2 / span_s)


def test_a_load_keeps_the_daily_cycle_and_the_jobs() -> None:
    natural = lublin_jobs(20_000, machine_size=128, seed=1)
    busy = lublin_jobs(20_000, machine_size=128, seed=1, load=2.0)
    np.testing.assert_array_equal(natural.runtime_s, busy.runtime_s)
    for jobs in (natural, busy):
        hour = np.bincount(jobs.submit_s // 3600 % 24, minlength=24) / len(jobs)
        assert hour[12:16].sum() > 0.22
        assert hour[2:6].sum() < 0.10


def test_the_same_seed_gives_the_same_log_and_another_one_another() -> None:
    one, same, other = (lublin_jobs(50, machine_size=8, seed=seed) for seed in (1, np.random.default_rng(1), 2))
    np.testing.assert_array_equal(one.submit_s, same.submit_s)
    np.testing.assert_array_equal(one.node_power_w, same.node_power_w)
    assert (one.submit_s != other.submit_s).any()


def test_a_log_of_more_than_one_block() -> None:
    jobs = lublin_jobs((1 << 18) + 5, machine_size=128, seed=1)
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert (jobs.estimate_s >= jobs.runtime_s).all()
    assert jobs.job_id[-1] == len(jobs)


@pytest.mark.parametrize(
    ("count", "machine_size", "load", "message"),
    [
        (0, 8, None, "cannot generate 0 jobs"),
        (1, 8, 0.5, "cannot generate 1 jobs"),
        (10**12, 8, None, "cannot generate 1,000,000,000,000 jobs"),
        (5, 0, None, "cannot generate jobs for a machine of 0 nodes"),
        (5, 10**9, None, "cannot generate jobs for a machine of 1,000,000,000 nodes"),
        (5, 8, 0.0, "no log has a load of 0"),
        (5, 8, -1.0, "no log has a load of -1"),
        (5, 8, float("nan"), "no log has a load of nan"),
        (5, 8, float("inf"), "no log has a load of inf"),
    ],
)
def test_impossible_logs_are_refused(count: int, machine_size: int, load: float | None, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        lublin_jobs(count, machine_size=machine_size, seed=1, load=load)
    assert caught.value.hint
