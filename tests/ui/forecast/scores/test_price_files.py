"""Price files of three kinds: what is read as prices, what as forecasts, and whose days they are."""

import gzip
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput, BadPrices
from offpeak.model.constants import DAY_S
from offpeak.model.zones import parse_zone
from offpeak.ui.forecast.price_scores import country_of, market_in, read_price_file

JUNE_S = 1_401_580_800  # 2014-06-01 00:00 UTC


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def hourly(prices: np.ndarray) -> np.ndarray:
    return np.repeat(prices, 4)


def test_the_name_tells_the_market():
    for name, zone in [
        ("price_DE-LU_2020-2024_eur_per_mwh.csv.gz", "DE-LU"),
        ("price_US-TEX-ERCO_2020-2024_usd_per_mwh.csv.gz", "ERCOT"),
        ("DE_2y.csv", "DE-LU"),
        ("PJM_2y.csv", "PJM"),
        ("NP_2y.csv", "NP"),
        ("SE1.csv", "SE1"),
        ("prices_at_home.csv", None),
    ]:
        market = market_in(name)
        assert (market and market.zone) == zone
    assert [country_of(market_in(f"{name}.csv")) for name in ("DE", "NP", "PJM", "SE3", "mine")] == [
        *("DE", "NO", "US", "SE"),
        "",
    ]


def test_dated_prices_have_the_days_of_their_market(tmp_path):
    rows = [f"2021-01-03T{23 + hour:02}:00Z,{hour}" for hour in (0,)] + ["2021-01-04T00:00Z,5", "2021-01-04T02:00Z,7"]
    file = read_price_file(written(tmp_path / "price_FR_eur_per_mwh.csv", "utc,price", *rows))
    assert (file.unit, file.zone, file.holidays, file.published) == ("EUR/MWh", parse_zone("Europe/Brussels"), "FR", ())
    np.testing.assert_array_equal(file.history.price, hourly(np.array([0, 5, np.nan, 7])))
    assert file.clock == "Europe/Brussels, public holidays of FR"


def test_dated_prices_of_nowhere_have_the_days_of_utc(tmp_path):
    file = read_price_file(written(tmp_path / "mine.csv", "utc,price", "2021-01-04T00:00Z,5", "2021-01-04T01:00Z,7"))
    assert (file.unit, file.zone, file.holidays, file.clock) == ("", UTC, "", "UTC, no public holidays")


def test_further_columns_beside_local_times_are_published_forecasts(tmp_path):
    text = "local_time,price,theirs\n2016-01-04 00:00:00,10,11\n2016-01-04 01:00:00,12,\n"
    path = tmp_path / "BE_2y.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    file = read_price_file(path)
    assert (file.zone, file.holidays, file.history.price.tolist()) == (
        UTC,
        "BE",
        hourly(np.array([10.0, 12.0])).tolist(),
    )
    ((name, theirs),) = file.published
    assert name == "published theirs"
    np.testing.assert_array_equal(theirs, hourly(np.array([11, np.nan])))


def test_a_single_column_has_no_dates_unless_given(tmp_path):
    path = written(tmp_path / "SE1.csv", '"price"', "26.1", "22.72")
    undated, dated = read_price_file(path), read_price_file(path, start="2014-06-01")
    assert (undated.holidays, undated.history.start_s % DAY_S) == (None, 0)
    assert "not known" in undated.clock
    assert (dated.holidays, dated.history.start_s) == ("SE", JUNE_S)
    assert "2014-06-01 as given" in dated.clock
    assert undated.history.price.tolist() == dated.history.price.tolist() == hourly(np.array([26.1, 22.72])).tolist()


def test_unreadable_price_file_is_an_error(tmp_path):
    path = written(tmp_path / "zone.csv", "price", "26.1", "22.72")
    with pytest.raises(BadInput, match="cannot read the date 'June'") as problem:
        read_price_file(path, start="June")
    assert "2014-06-01" in problem.value.hint
    with pytest.raises(BadPrices, match="no such file"):
        read_price_file(tmp_path / "none.csv")
    with pytest.raises(BadPrices, match=r"zone\.csv:2"):
        read_price_file(written(path, "site,cores", "Blacklight,4096"))


def test_real_files_of_each_kind(shared):
    folder = shared / "data"
    market = read_price_file(folder / "prices" / "epf" / "PJM_2y_price_and_published_forecasts.csv.gz")
    assert len(market.history) == 4 * 24 * 728
    assert [name for name, _ in market.published] == ["published dnn_ensemble", "published lear_ensemble"]
    zone = read_price_file(folder / "xsede_2014" / "XSEDE" / "San Diego.csv", start="2014-06-01")
    assert len(zone.history) == 4 * 24 * 30
    dated = read_price_file(folder / "prices" / "price_US-CAL-CISO_2020-2024_usd_per_mwh.csv.gz")
    assert (dated.unit, dated.clock) == ("USD/MWh", "America/Los_Angeles, public holidays of US")
