"""Price forecasts are scored: which days count, and what is left out and why."""

import gzip
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from offpeak.predictors.prices.predictor import PricePredictor
from offpeak.predictors.scores import price_exam, take_exam
from offpeak.ui.forecast.price_scores import (
    ALL,
    DAYS_AHEAD,
    ENSEMBLE_WITH_INPUTS,
    OURS,
    PriceResult,
    learned_days,
    price_tables,
    price_tasks,
    run_price_task,
)


def undated(path: Path, hours: np.ndarray) -> Path:
    path.write_text("price\n" + "".join(f"{price}\n" for price in hours))
    return path


def prices(days: int) -> np.ndarray:
    random = np.random.default_rng(7)
    return 40 + 10 * np.sin(np.arange(24 * days) / 24 * 2 * np.pi) + random.normal(0, 3, 24 * days)


def run(path: Path, *names: str) -> dict[str, PriceResult]:
    return {task.predictor: run_price_task(task) for task in price_tasks(path) if not names or task.predictor in names}


@pytest.fixture
def weeks(tmp_path) -> Path:
    return undated(tmp_path / "weeks.csv", prices(14))


def test_each_predictor_is_a_task_that_can_go_to_another_process(weeks):
    tasks = price_tasks(weeks)
    assert tuple(task.predictor for task in tasks) == tuple(OURS)
    woken = pickle.loads(pickle.dumps(tasks[0]))
    assert pickle.loads(pickle.dumps(run_price_task(woken))).score == run_price_task(tasks[0]).score


def test_a_short_file_is_scored_after_its_first_week(weeks):
    results = run(weeks, "last week", "blend", "ensemble", "LEAR")
    assert {name: result.days for name, result in results.items()} == {
        "last week": 7,
        "blend": 7,
        "ensemble": 7,
        "LEAR": 0,
    }
    hours = prices(14)
    assert results["blend"].score.relative_mae == pytest.approx(
        results["blend"].score.mae / np.abs(hours[168:] - hours[:-168]).mean()
    )
    assert results["blend"].score.relative_mae < 1
    assert "needs 42 whole days" in results["LEAR"].refused


def test_two_years_are_scored_on_the_second(tmp_path):
    for days, learned in ((727, 7), (728, 364), (1000, 636), (1500, 728)):
        (task, *_) = price_tasks(undated(tmp_path / "long.csv", prices(days)))
        assert learned_days(task.file) == learned


def test_missing_package_is_left_out_with_a_hint(weeks, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.sarimax", None)
    result = run(weeks, "SARIMA")["SARIMA"]
    assert result.score is None
    assert "pip install" in result.refused


def test_files_that_tell_nothing_are_left_out(tmp_path):
    for hours, why in [(np.full(24 * 10, 74.0), "never changes"), (prices(7), "too short")]:
        (result,) = run(undated(tmp_path / "flat.csv", hours)).values()
        assert (result.predictor, result.score) == (ALL, None)
        assert why in result.refused
        scores, files, left_out = price_tables([result])
        assert (scores.rows, len(files.rows), left_out.rows[0][1]) == ((), 1, ALL)


def with_inputs(path: Path, days: int, *, dated: bool) -> Path:
    random = np.random.default_rng(5)
    load = np.repeat(random.normal(50, 9, days), 24) + random.normal(0, 1, 24 * days)
    times = np.datetime_as_string(np.datetime64("2016-01-04T00") + np.arange(24 * days), unit="m")
    zone, head = ("Z", "utc") if dated else ("", "local_time")
    rows = (f"{time}{zone},{1000 * gw},{gw}\n" for time, gw in zip(times, load, strict=True))
    path.write_text(f"{head},input_load_mw,price\n{''.join(rows)}")
    return path


@pytest.mark.nightly
def test_columns_of_inputs_are_no_prices_and_make_a_score_of_their_own(tmp_path):
    for dated in [False, True]:
        path = with_inputs(tmp_path / "market_eur_per_mwh.csv", 70, dated=dated)
        found = run(path, "ensemble", ENSEMBLE_WITH_INPUTS)
        assert set(found) == {"ensemble", ENSEMBLE_WITH_INPUTS}
        assert not [task.predictor for task in price_tasks(path) if task.predictor.startswith("published")]
        assert found[ENSEMBLE_WITH_INPUTS].score.mae < 0.8 * found["ensemble"].score.mae
        assert found[ENSEMBLE_WITH_INPUTS].cpu_s > 0


def test_further_ahead_errs_more_and_is_scored_on_the_same_days(tmp_path):
    level = np.repeat(np.cumsum(np.random.default_rng(2).normal(0, 4, 60)), 24)
    path = undated(tmp_path / "walk.csv", 100 + level + prices(60))
    found = run(path, "ensemble", *DAYS_AHEAD)
    assert {result.days for result in found.values()} == {53}
    errors = [found[name].score.mae for name in ("ensemble", *DAYS_AHEAD)]
    assert errors == sorted(errors)


def test_the_worst_month_is_that_of_any_thirty_days(tmp_path):
    (task,) = (each for each in price_tasks(undated(tmp_path / "days.csv", prices(60))) if each.predictor == "blend")
    exam = price_exam(task.file.history, task.file.zone, after_days=7)
    given = take_exam(PricePredictor(task.file.zone, holidays=None, members=OURS["blend"]), exam)
    inside = (exam.actual >= given.quantiles[:, 0]) & (exam.actual <= given.quantiles[:, 2])
    days = inside.reshape(53, -1).mean(axis=1)
    assert run_price_task(task).worst_month == pytest.approx(min(days[i : i + 30].mean() for i in range(24)))
    (short,) = run(undated(tmp_path / "short.csv", prices(36)), "blend").values()
    assert np.isnan(short.worst_month)


def test_a_published_forecast_is_scored_where_it_says_something(tmp_path):
    hours = prices(9)
    theirs = [f"{price + 1}" for price in hours]
    theirs[24 * 8] = ""
    times = np.datetime_as_string(np.datetime64("2016-01-04T00") + np.arange(len(hours)), unit="m")
    rows = "".join(f"{time},{price},{forecast}\n" for time, price, forecast in zip(times, hours, theirs, strict=True))
    path = tmp_path / "BE.csv.gz"
    path.write_bytes(gzip.compress(f"local_time,price,theirs\n{rows}".encode()))
    result = run(path, "published theirs")["published theirs"]
    assert (result.days, result.cpu_s) == (pytest.approx(47 / 24), None)
    assert result.score.mae == pytest.approx(1)


def test_texas_in_june_2014(shared):
    found = run(shared / "data" / "xsede_2014" / "XSEDE" / "Texas.csv", "week's mean", "ensemble")
    assert found["ensemble"].days == 23
    assert found["ensemble"].score.relative_mae < found["week's mean"].score.relative_mae < 0.8
