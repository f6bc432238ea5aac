"""Stretches of a log, longer jobs, and prices further from their mean."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series
from studies.logs import StudyLog, offered_load
from studies.price_capacity import run as arrange
from studies.price_capacity.run import CapacitySetup, arranged, lengthened, spread_out, stretch_of


@pytest.mark.parametrize("load", [0.5, 0.9])
@pytest.mark.parametrize("length", [0.25, 1.0, 4.0])
def test_the_load_is_as_requested_whatever_the_length_of_jobs(log: StudyLog, load: float, length: float) -> None:
    jobs = arranged(log, CapacitySetup(load=load, length=length), 0)
    assert offered_load(jobs, log.size) == pytest.approx(load, rel=0.01)


def test_replays_take_the_stretches_in_turn(log: StudyLog, monkeypatch: pytest.MonkeyPatch) -> None:
    days = log.span_s / DAY_S
    monkeypatch.setattr(arrange, "STRETCH_S", int(days / 2 * DAY_S) - 60)
    first, second, again = (arranged(log, CapacitySetup(), replay).job_id.tolist() for replay in range(3))
    assert first == again
    assert not set(first) & set(second)
    assert set(first) | set(second) <= set(log.trace.jobs.job_id.tolist())


@given(st.integers(60, 10**7), st.integers(0, 500))
def test_every_stretch_has_jobs_and_no_other_times(log: StudyLog, stretch_s: int, replay: int) -> None:
    jobs, first_s = stretch_of(log, stretch_s, replay), int(log.trace.jobs.submit_s[0])
    number = {(submit_s - first_s) // stretch_s for submit_s in jobs.submit_s.tolist()}
    assert len(number) == 1


@pytest.mark.parametrize("replay", range(3))
def test_a_replay_has_the_same_prices_whatever_the_setup(
    log: StudyLog, monkeypatch: pytest.MonkeyPatch, replay: int
) -> None:
    monkeypatch.setattr(arrange, "STRETCH_S", log.span_s // 4)
    setups = (CapacitySetup(), CapacitySetup(load=0.9), CapacitySetup(length=0.25), CapacitySetup(length=4.0))
    assert len({int(arranged(log, setup, replay).submit_s[0]) for setup in setups}) == 1


def test_jobs_are_longer_by_run_and_by_estimate(log: StudyLog) -> None:
    jobs = log.trace.jobs
    longer = lengthened(jobs, 4.0)
    assert (longer.runtime_s == 4 * jobs.runtime_s).all()
    assert (longer.estimate_s == 4 * jobs.estimate_s).all()
    least = lengthened(replace(jobs, runtime_s=np.minimum(jobs.runtime_s, 1)), 0.1)
    assert (least.runtime_s == np.minimum(jobs.runtime_s, 1)).all()


@given(st.lists(st.floats(-50, 300), min_size=1, max_size=9), st.floats(0, 4))
def test_prices_keep_their_mean(values: list[float], times: float) -> None:
    series = Series(3600 * np.arange(len(values)), 3600 * len(values), np.array(values), "EUR/MWh", "test")
    out = spread_out(series, times)
    mean = float(np.mean(values))
    assert float(out.value.mean()) == pytest.approx(mean, abs=1e-6)
    assert out.value - mean == pytest.approx(times * (series.value - mean), abs=1e-6)
