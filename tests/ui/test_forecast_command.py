"""`offpeak forecast` as an operator meets it."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A price file of ten days, dear at noon."""
    rows = [f"2023-03-{1 + hour // 24:02}T{hour % 24:02}:00Z,{60 - 3 * abs(12 - hour % 24)}" for hour in range(240)]
    path = tmp_path / "ours_eur_per_mwh.csv"
    path.write_text("\n".join(["utc,price", *rows, ""]))
    return path


def test_published_prices_come_before_forecast_ones(offpeak, file) -> None:
    done = offpeak("forecast", "price", "--prices", file, "--from", "2023-03-10T18:00", "--hours", "30", "--json")
    prices = json.loads(done.stdout)["prices"]
    assert len(prices) == 30
    assert [each["basis"] == "published" for each in prices] == [True] * 6 + [False] * 24
    assert prices[18 + 0]["price"] == pytest.approx(60, abs=6)
    assert all(each["p10"] <= each["p50"] <= each["p90"] for each in prices)


def test_the_table_says_what_it_rests_on(offpeak, file) -> None:
    lines = offpeak("forecast", "price", "--prices", file, "--from", "2023-03-10T23:00", "--hours", "3").stdout
    rows = lines.splitlines()[3:6]
    assert rows[0].split() == ["Fri", "2023-03-10", "23:00", "27.00", "27.00", "27.00", "published"]
    assert "forecast from 10 days: blend 100%" in rows[1]
    assert "learned from 2023-03-01 to 2023-03-11; of late wrong by" in lines


def test_without_prices_the_tariff_holds(offpeak) -> None:
    prices = json.loads(offpeak("forecast", "price", "--hours", "24", "--json").stdout)["prices"]
    assert {each["basis"] for each in prices} == {"tariff"}
    assert {each["price"] for each in prices} == {30, 90}


def test_prices_that_ended_long_ago_are_said_to_be_too_old(offpeak, file) -> None:
    done = offpeak("forecast", "price", "--prices", file, "--from", "2023-04-10", "--hours", "1")
    assert "known prices too old to forecast from: the last one ends 2023-03-11T00:00Z" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["price", "--zone", "XX"], "feeds.zone: 'XX' is not a known zone", "known: AT"),
        (["price", "--from", "monday"], "cannot read the date 'monday'", "write it like 2020-09-21"),
        (["price", "--hours", "0"], "Invalid value for '--hours'", "offpeak forecast price --help"),
        (["rain"], "No such command 'rain'", "offpeak forecast --help"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(offpeak, arguments, message, hint) -> None:
    done = offpeak("forecast", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 2
