"""The estimate of a log: what is sure, what is assumed, and what is chance."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.price_model import write_series_csv
from offpeak.errors import BadTrace
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series
from offpeak.settings.replay import PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.estimate import SavingsEstimate, estimate_savings, reasons
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.sample import SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

pytestmark = pytest.mark.quick

TARIFF = PriceSettings(tariff="on=90EUR/MWh,off=30EUR/MWh,hours=08:00-20:00")
POLICIES = tuple(parse_policy(name, SchedulingSettings()) for name in ("easy", "greedy"))
DAYS = 20


@cache
def sample() -> Trace:
    return read_swf(SAMPLE_LOG)


def unmeasured() -> Trace:
    jobs = sample().jobs
    return replace(sample(), jobs=replace(jobs, node_power_w=np.full(len(jobs), np.nan)))


def estimate_of(
    trace: Trace, prices: PriceSettings = TARIFF, days: int | None = DAYS, **sections: object
) -> SavingsEstimate:
    return estimate_savings(trace, Settings(prices=prices, **sections), POLICIES, days=days, replays=10)


def test_measured_power_gives_points_and_weeks_give_ranges() -> None:
    made = estimate_of(sample(), days=None)
    assert made.used.energy_kwh.low == made.used.energy_kwh.middle == made.used.energy_kwh.high
    (saving,) = made.savings
    assert saving.share_pct.low < saving.share_pct.middle < saving.share_pct.high
    assert saving.weeks == 12
    years = (made.used.until_s - made.used.begin_s) / (365.25 * DAY_S)
    assert saving.a_year.middle == pytest.approx(made.used.cost.middle * saving.share_pct.middle / 100 / years)
    assert saving.a_year.low < saving.a_year.middle < saving.a_year.high
    assert reasons(made) == []


def test_assumed_power_gives_ranges_whose_low_end_is_that_nothing_is_saved() -> None:
    made = estimate_of(unmeasured(), days=None)
    energy = made.used.energy_kwh
    idle_kwh = made.used.idle_energy_kwh
    assert energy.high - idle_kwh == pytest.approx(3 * (energy.low - idle_kwh))
    assert energy.low < energy.middle < energy.high
    assert made.savings[0].share_pct.low <= 0 < made.savings[0].share_pct.high


def test_jobs_that_all_draw_the_same_cannot_be_ordered_to_save_anything() -> None:
    made = estimate_of(sample(), power=PowerSettings(job="constant:200W"))
    (saving,) = made.savings
    assert saving.share_pct == replace(saving.share_pct, low=0.0, middle=0.0, high=0.0)
    assert saving.is_noise
    assert made.hardly_pays
    assert any("nearly the same power" in reason for reason in reasons(made))


def test_flat_prices_and_an_empty_queue_are_named_as_reasons() -> None:
    few = replace(sample(), jobs=sample().jobs.take(np.arange(0, 4500, 30)))
    made = estimate_of(few, replace(TARIFF, tariff="on=31EUR/MWh,off=30EUR/MWh,hours=08:00-20:00"))
    text = " ".join(reasons(made))
    assert "nothing to reorder" in text
    assert "1.03 times" in text
    assert made.hardly_pays


def test_the_log_is_cut_to_the_days_that_have_prices(tmp_path: Path) -> None:
    trace = sample()
    first = trace.unix_start_s + 40 * DAY_S
    start_s = first + 3600 * np.arange(24 * 10)
    value = np.tile([30.0] * 12 + [90.0] * 12, 10)
    write_series_csv(
        Series(start_s, int(start_s[-1]) + 3600, value, "EUR/MWh", "ten days"), tmp_path / "p_eur_per_mwh.csv"
    )
    made = estimate_savings(
        trace, Settings(prices=PriceSettings(file=tmp_path / "p_eur_per_mwh.csv")), POLICIES, days=None, replays=10
    )
    assert made.used.until_s - made.used.begin_s <= 10 * DAY_S
    assert any("prices cover a part of the log" in note for note in made.trace.notes)
    assert len(made.trace.jobs) < len(trace.jobs) / 4


def test_jobs_whose_start_is_not_logged_are_left_out() -> None:
    jobs = sample().jobs
    start_s = np.where(np.arange(len(jobs)) % 2, jobs.submit_s + 60, -1)
    made = estimate_of(replace(sample(), jobs=replace(jobs, logged_start_s=start_s)))
    assert made.trace.rejected[-1].reason == "its start is not in the log"
    assert len(made.trace.rejected[-1].job_ids) == 2250
    assert made.used.mean_wait_s < 3600


def test_one_job_is_enough() -> None:
    one = replace(sample(), jobs=sample().jobs.take(np.array([100])))
    made = estimate_of(one)
    assert made.used.energy_kwh.middle > 0
    assert made.savings[0].is_noise


def test_at_negative_prices_a_saving_is_a_larger_income() -> None:
    made = estimate_of(sample(), replace(TARIFF, tariff="on=-90EUR/MWh,off=-30EUR/MWh,hours=08:00-20:00"), days=None)
    (saving,) = made.savings
    years = (made.used.until_s - made.used.begin_s) / (365.25 * DAY_S)
    assert made.used.cost.middle < 0
    assert saving.share_pct.middle != 0
    assert saving.a_year.middle == pytest.approx(-made.used.cost.middle * saving.share_pct.middle / 100 / years)
    assert saving.a_year.low < saving.a_year.middle < saving.a_year.high


def test_jobs_that_took_no_time_are_no_year() -> None:
    one = sample().jobs.take(np.array([100]))
    with pytest.raises(BadTrace, match="took no time"):
        estimate_of(replace(sample(), jobs=replace(one, runtime_s=np.zeros(1, np.int64))))


def test_a_log_without_jobs_is_refused() -> None:
    with pytest.raises(BadTrace):
        estimate_of(replace(sample(), jobs=sample().jobs.take(np.array([], np.int64))))
