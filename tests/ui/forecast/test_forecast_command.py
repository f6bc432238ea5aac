"""`offpeak forecast` as an operator meets it."""

import gzip
import json
import re
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
    assert [price["basis"] == "published" for price in prices] == [True] * 6 + [False] * 24
    assert prices[18 + 0]["price"] == pytest.approx(60, abs=6)
    assert all(price["p10"] <= price["price"] == price["p50"] <= price["p90"] for price in prices)


def test_the_table_says_what_it_rests_on(offpeak, file) -> None:
    lines = offpeak("forecast", "price", "--prices", file, "--from", "2023-03-10T23:00", "--hours", "3").stdout
    rows = lines.splitlines()[3:6]
    assert rows[0].split() == ["Fri", "2023-03-10", "23:00", "27.00", "published"]
    assert "forecast from 10 days: blend 100%" in rows[1]
    assert "learned from 2023-03-01 to 2023-03-11; mean error a day ahead, recently: " in lines


def test_a_tariff_is_known_and_not_forecast(offpeak) -> None:
    tariff = ("--tariff", "on=90EUR/MWh,off=30EUR/MWh")
    prices = json.loads(offpeak("forecast", "price", *tariff, "--hours", "24", "--json").stdout)["prices"]
    assert {(price["basis"], price["is_forecast"]) for price in prices} == {("tariff", False)}
    assert {price["price"] for price in prices} == {30, 90}
    first, second, _, _, row, *_ = offpeak("forecast", "price", *tariff).stdout.splitlines()
    assert first.endswith("known from the tariff, not forecast")
    assert re.fullmatch(
        r"90 EUR/MWh from 09:00 to 23:00 every day, clock of \S+, else 30 EUR/MWh"
        r" \(hours=09:00-23:00 assumed: none are given\)",
        second,
    )
    assert len(row.split()) == 5  # day, date, hour, price, basis: no range


def test_without_prices_nothing_is_forecast(offpeak) -> None:
    done = offpeak("forecast", "price")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no prices are set, so there is nothing to forecast" in done.stderr
    assert "--zone DE-LU" in done.stderr


def test_a_tariff_that_nobody_declared_is_named_where_a_forecast_rests_on_it(offpeak, file) -> None:
    done = offpeak("forecast", "price", "--prices", file, "--from", "2023-04-10", "--hours", "1")
    first, second, _, _, row, *_ = done.stdout.splitlines()
    assert first.endswith("; no price for that time is known or can be forecast: assumed tariff")
    assert second.startswith("90 EUR/MWh from 09:00 to 23:00 every day, clock of ")
    assert second.endswith(", else 30 EUR/MWh (assumed, as the known prices do not reach)")
    assert row.endswith("assumed tariff")


def test_prices_that_ended_long_ago_are_reported_as_too_old(offpeak, file) -> None:
    done = offpeak("forecast", "price", "--prices", file, "--from", "2023-04-10", "--hours", "1")
    assert "known prices too old to forecast from: the last one ends 2023-03-11T00:00Z" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["price", "--zone", "XX"], "feeds.zone: 'XX' is not a known zone", "known: AT"),
        (["price", "--from", "monday"], "'monday' is not a time", "write it like 2026-11-01"),
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


LOG = Path("sim_backend/sample/sample_sacct.txt.gz").resolve()
JOB = ["--size", "4", "--estimate", "2h", "--user", "user15"]


@pytest.fixture(scope="module")
def short_log(tmp_path_factory) -> Path:
    """The first three weeks of the bundled accounting."""
    path = tmp_path_factory.mktemp("log") / "sacct.txt"
    with gzip.open(LOG, "rt") as whole:
        path.write_text("".join(line for line, _ in zip(whole, range(1200), strict=False)))
    return path


@pytest.mark.parametrize(
    ("quantity", "predictors"),
    [
        ("runtime", ["estimate", "last two", "similar jobs", "boosted"]),
        ("power", ["constant", "history", "boosted"]),
        ("wait", ["arbiter", "similar jobs", "boosted", "what-if"]),
    ],
)
def test_each_predictor_answers_about_a_job(offpeak, short_log, quantity, predictors) -> None:
    done = offpeak("forecast", quantity, short_log, *JOB, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [answer["predictor"] for answer in document["answers"]] == predictors
    assert document["best"] in predictors
    for answer in document["answers"]:
        assert 0 <= answer["p10"] <= answer["expected"] == answer["p50"] <= answer["p90"]
        assert answer["basis"]
    if quantity == "runtime":
        assert all(answer["p90"] <= 7200 for answer in document["answers"])


def test_saved_model_gives_the_same_forecast(offpeak, short_log, tmp_path) -> None:
    command = ["forecast", "runtime", short_log, *JOB, "--models", tmp_path, "--json"]
    first, second = (offpeak(*command) for _ in range(2))
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert first.stderr.startswith(f"written: {tmp_path}/run-time-")
    assert {path.name for path in tmp_path.glob("*.npz")} == {
        "run-time-boosted.npz",
        "run-time-estimate.npz",
        "run-time-last-two.npz",
        "run-time-similar-jobs.npz",
    }


def test_a_user_without_jobs_gets_what_others_did(offpeak, short_log) -> None:
    lines = offpeak("forecast", "runtime", short_log, "--size", "4", "--estimate", "2h", "--user", "new").stdout
    assert next(line for line in lines.splitlines() if line.startswith("last two")).split()[-1] == "estimate"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["runtime", "no.txt", *JOB], "no.txt: no such file", "ls"),
        (["runtime", LOG, "--size", "4"], "Missing option '--estimate'", "offpeak forecast runtime --help"),
        (["power", LOG, "--size", "4", "--estimate", "2 hours"], "unknown unit 'hours'", "known: d, h, min, s"),
        (
            ["wait", LOG, "--size", "4000", "--estimate", "2h"],
            "a job of 4,000 cannot run on the 128",
            "a smaller --size",
        ),
    ],
)
def test_bad_input_about_a_job_is_one_line_and_a_hint(offpeak, arguments, message, hint) -> None:
    done = offpeak("forecast", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_damaged_model_is_reported(offpeak, short_log, tmp_path) -> None:
    (tmp_path / "run-time-estimate.npz").write_bytes(b"garbage")
    done = offpeak("forecast", "runtime", short_log, *JOB, "--models", tmp_path)
    assert done.returncode == 2
    assert "run-time-estimate.npz: cannot be read" in done.stderr
    assert "remove the file" in done.stderr
