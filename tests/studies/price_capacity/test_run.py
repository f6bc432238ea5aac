"""One experiment: the jobs and the prices of a stretch, the blind cap and the run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_series import Series
from offpeak.plugin.capacity.port import Fleet
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings
from offpeak.sim_backend.case.electricity import ReplayPrices, prices_of
from offpeak.sim_backend.case.replay_case import log_span
from offpeak.sim_backend.sample import SAMPLE_PRICES
from offpeak_studies.logs import StudyLog, offered_load
from offpeak_studies.price_capacity import run as arrange
from offpeak_studies.price_capacity.run import (
    ALWAYS_ON,
    BLIND,
    TIMEOUT,
    CapacityExperiment,
    CapacitySetup,
    aligned_on,
    arranged,
    blind,
    case_of,
    lengthened,
    price_notes,
    profile,
    run,
    spread_out,
    stretch_of,
)
from offpeak_studies.price_capacity.study import digest_of


@pytest.fixture(scope="module")
def prices(log: StudyLog) -> ReplayPrices:
    """The bundled year, laid on the log."""
    return prices_of(log_span(log.trace, log.trace.jobs), PriceSettings(file=SAMPLE_PRICES), None)


def experiment(**setup: object) -> CapacityExperiment:
    return CapacityExperiment("small", 3, 0, CapacitySetup(**setup))  # type: ignore[arg-type]


def test_a_flat_price_moves_no_job_and_saves_only_what_nothing_else_would(log: StudyLog, prices: ReplayPrices) -> None:
    result = run(experiment(spread=0.0, policies=(ALWAYS_ON, profile(3.0))), log, prices)
    assert result.longer_h(profile(3.0)) == 0
    assert result.saved_pct(profile(3.0)) == pytest.approx(0)


def test_policies_are_compared_on_the_same_jobs(log: StudyLog, prices: ReplayPrices) -> None:
    policies = (ALWAYS_ON, TIMEOUT, BLIND, profile(200.0))
    result = run(experiment(policies=policies), log, prices)
    assert tuple(policy.policy for policy in result.policies) == policies
    assert len({policy.jobs for policy in result.policies}) == 1
    assert result.job_saved_pct(ALWAYS_ON) == 0
    assert result.saved_pct(TIMEOUT) > 0
    assert result == run(experiment(policies=policies), log, prices)


def test_a_job_draws_what_the_class_draws_from_half_to_full_use(log: StudyLog, prices: ReplayPrices) -> None:
    drawn_w = case_of(experiment(), log, prices).node_power_w
    assert 480 <= drawn_w.min() < 520 < 660 < drawn_w.max() <= 700
    other_w = case_of(replace(experiment(), replay=1), log, prices).node_power_w
    assert len(other_w) != len(drawn_w) or not np.array_equal(other_w, drawn_w)


def test_load_and_length_of_jobs_are_as_requested(log: StudyLog) -> None:
    for length in [0.25, 1.0, 4.0]:
        for load in [0.5, 0.9]:
            jobs = arranged(log, CapacitySetup(load=load, length=length), 0)
            assert offered_load(jobs, log.size) == pytest.approx(load, rel=0.01)
    jobs = log.trace.jobs
    longer = lengthened(jobs, 4.0)
    assert (longer.runtime_s == 4 * jobs.runtime_s).all()
    assert (longer.estimate_s == 4 * jobs.estimate_s).all()
    least = lengthened(replace(jobs, runtime_s=np.minimum(jobs.runtime_s, 1)), 0.1)
    assert (least.runtime_s == np.minimum(jobs.runtime_s, 1)).all()


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


def test_a_replay_has_the_same_prices_whatever_the_setup(log: StudyLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrange, "STRETCH_S", log.span_s // 4)
    setups = (CapacitySetup(), CapacitySetup(load=0.9), CapacitySetup(length=0.25), CapacitySetup(length=4.0))
    for replay in range(3):
        assert len({int(arranged(log, setup, replay).submit_s[0]) for setup in setups}) == 1


@given(st.lists(st.floats(-50, 300), min_size=1, max_size=9), st.floats(0, 4))
def test_prices_keep_their_mean(values: list[float], times: float) -> None:
    series = Series(3600 * np.arange(len(values)), 3600 * len(values), np.array(values), "EUR/MWh", "test")
    out = spread_out(series, times)
    mean = float(np.mean(values))
    assert float(out.value.mean()) == pytest.approx(mean, abs=1e-6)
    assert out.value - mean == pytest.approx(times * (series.value - mean), abs=1e-6)


HOUR_S = 3600


def test_half_of_the_nodes_in_the_dearest_six_hours_of_each_day() -> None:
    at_s = HOUR_S * np.arange(-3, 45)
    price = np.concatenate([np.arange(24.0), np.arange(24.0)[::-1]])
    capacity = blind(Fleet(11, 1, bundled_node_class("server"), 0.5, at_s, price), CapacitySettings())
    assert capacity.schedule.target.tolist() == [11] * 18 + [5] * 6 + [5] * 6 + [11] * 18
    assert capacity.schedule.at_s[1:].tolist() == at_s[1:].tolist()
    assert not capacity.rules.on_demand


HOURS = 24 * 21


def price_file(folder: Path, missing: range) -> Path:
    file = folder / "prices_eur_per_mwh.csv"
    at = np.datetime64("2023-01-02T00:00") + np.arange(HOURS) * np.timedelta64(1, "h")
    rows = [f"{time}Z,{hour % 168}" for hour, time in enumerate(at) if hour not in missing]
    file.write_text("utc,price\n" + "\n".join(rows) + "\n")
    return file


def test_gaps_spread_and_end_of_the_prices_are_noted(log: StudyLog, tmp_path: Path) -> None:
    file = price_file(tmp_path, range(200, 210))
    assert aligned_on(log, file).aligned.series.value.tolist() == [hour % 168 for hour in range(HOURS)]
    assert (
        price_notes(log, file)[1] == "10 of 504 hours have no price: the price of the same hour a week earlier is used"
    )
    note = price_notes(log, price_file(tmp_path, range(0)))[0]
    assert note == "prices: prices_eur_per_mwh.csv, mean 83.50, standard deviation 48.50 EUR/MWh"
    *_, note = price_notes(log, price_file(tmp_path, range(24 * 2, HOURS)))
    assert note.startswith("small: log without a date mapped to 2023-01-02")
    assert note.endswith("prices end 2023-01-04, from there the last 2 days are repeated")
    with pytest.raises(BadPrices, match="less than a day of prices"):
        price_notes(log, price_file(tmp_path, range(5, HOURS)))
    with pytest.raises(BadPrices, match=r"absent\.csv: no such file"):
        digest_of(tmp_path / "absent.csv")
