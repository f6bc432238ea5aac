"""Single experiments on a small grid, and on the real one where its folder is there."""

from pathlib import Path

import pytest
from price_folder import write_folder, write_forecasts

from offpeak.errors import BadInput, BadPrices
from offpeak_studies.day_ahead.inputs import daily_prices, site_rows
from offpeak_studies.day_ahead.run import SHARES, TB, DayAheadExperiment, DayAheadResult, StrategyCase, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("prices"))


@pytest.fixture(scope="module")
def out(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_forecasts(folder, tmp_path_factory.mktemp("out"))


def result_of(case: StrategyCase, folder: Path, out: Path) -> DayAheadResult:
    return run(DayAheadExperiment(case, 1, 0, jobs=200, history=3800), folder, out)


def test_the_baseline_is_fair_by_definition(folder: Path, out: Path) -> None:
    result = result_of(StrategyCase("baseline"), folder, out)
    assert result.fairness == (1.0,) * len(SHARES)
    assert sum(result.jobs) == pytest.approx(200, abs=4)
    assert result.cost_by_power[0] < result.cost_usd < result.cost_by_power[2]
    assert sum(result.by_size_usd) == pytest.approx(result.cost_usd)
    assert sum(result.by_error_jobs) == sum(result.jobs)


def test_cost_alone_is_cheapest_and_time_alone_runs_fastest(folder: Path, out: Path) -> None:
    base, cheap, fast = (
        result_of(case, folder, out)
        for case in (StrategyCase("baseline"), StrategyCase("mcmf", 0.0), StrategyCase("mcmf", 100.0))
    )
    assert cheap.cost_usd < min(base.cost_usd, fast.cost_usd)
    assert fast.runtime_min < base.runtime_min


def test_data_on_its_way_makes_jobs_slower_and_half_the_jobs_may_stay(folder: Path, out: Path) -> None:
    without, with_data = (result_of(StrategyCase("mcmf", most_data_mb=most), folder, out) for most in (0.0, 10 * TB))
    assert with_data.response_min > without.response_min
    half = result_of(StrategyCase("mcmf", brokered_pct=50), folder, out)
    assert all(value is not None for value in half.fairness_local[:3])


def test_the_same_seed_has_the_same_result(folder: Path, out: Path) -> None:
    case = StrategyCase("two-price", wrong_h=6.0)
    assert result_of(case, folder, out) == result_of(case, folder, out)


def test_a_folder_that_is_missing_or_incomplete_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"day-ahead needs the prices of 2014: no xsede_sites\.csv in any folder"):
        site_rows(None)
    with pytest.raises(BadInput, match=r"no xsede_sites\.csv in"):
        site_rows(tmp_path)
    with pytest.raises(BadInput, match=r"North\.csv: there are no prices of that place"):
        daily_prices(folder / "XSEDE" / "North.csv")
    bad = tmp_path / "bad.csv"
    bad.write_text("price\n1\nmany\n")
    with pytest.raises(BadPrices, match="could not convert string to float: 'many'"):
        daily_prices(bad)


def test_the_real_sites_and_prices_are_read(shared: Path) -> None:
    rows = site_rows(shared / "data" / "xsede_2014")
    assert [row.name for row in rows] == list(SHARES)
    for row in rows:
        assert daily_prices(shared / "data" / "xsede_2014" / "XSEDE" / f"{row.place}.csv").shape[0] >= 29
