"""The synthetic year has the shape of a real one, and is the same for the same seed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.price_model import synthetic_prices, write_series_csv
from offpeak.model.constants import DAY_S
from offpeak.model.local_time import to_local_s, weekday
from offpeak.prices.file import read_series
from offpeak.prices.layout import PriceFileLayout

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def year():
    return synthetic_prices(2023, seed=1)


@pytest.fixture(scope="module")
def local_s(year):
    return to_local_s(year.start_s, BERLIN)


def test_one_local_year_of_hours(year):
    assert len(year) == 8760
    assert len(synthetic_prices(2024, seed=1)) == 8784
    assert int(year.start_s[0]) == datetime(2023, 1, 1, tzinfo=BERLIN).timestamp()
    assert (year.unit, year.gaps()) == ("EUR/MWh", ())


def test_seeds(year):
    assert np.array_equal(synthetic_prices(2023, seed=1).value, year.value)
    assert not np.array_equal(synthetic_prices(2023, seed=2).value, year.value)


def test_two_humps_a_day_and_cheaper_weekends(year, local_s):
    mean = np.bincount(local_s % DAY_S // 3600, weights=year.value) / 365
    assert mean[3] < mean[8] > mean[13] < mean[19] > mean[23]
    weekend = weekday(local_s // DAY_S) >= 5
    assert year.value[weekend].mean() < year.value[~weekend].mean() - 10


def test_a_dear_winter_and_negative_middays(year):
    winter, summer = year.value[: 60 * 24], year.value[150 * 24 : 240 * 24]
    assert winter.mean() > summer.mean() + 10
    for seed in range(8):
        prices = synthetic_prices(2023, seed=seed)
        negative = np.flatnonzero(prices.value < 0)
        assert 20 < len(negative) < 400
        warm = (negative > 60 * 24) & (negative < 270 * 24)
        midday = np.isin(to_local_s(prices.start_s, BERLIN)[negative] % DAY_S // 3600, range(9, 18))
        assert (warm & midday).mean() > 0.5


def test_neighbouring_hours_are_alike_and_spikes_are_rare(year):
    assert np.corrcoef(year.value[1:], year.value[:-1])[0, 1] > 0.85
    assert 160 < year.value.max() < 1000
    assert (year.value > 240).sum() < 50


@given(st.integers(1990, 2040), st.integers(0, 2**32), st.floats(10, 300))
def test_the_mean_is_the_requested_one(year, seed, mean_per_mwh):
    prices = synthetic_prices(year, seed=seed, mean_per_mwh=mean_per_mwh)
    assert prices.value.mean() == pytest.approx(mean_per_mwh, abs=0.01)
    assert set(prices.length_s.tolist()) == {3600}


def test_a_written_year_is_read_again(year, tmp_path):
    path = tmp_path / "sample_2023_eur_per_mwh.csv.gz"
    write_series_csv(year, path)
    again = read_series(path, PriceFileLayout())
    assert np.array_equal(again.value, year.value)
    assert np.array_equal(again.start_s, year.start_s)
    assert path.read_bytes() == (write_series_csv(year, path), path.read_bytes())[1]
