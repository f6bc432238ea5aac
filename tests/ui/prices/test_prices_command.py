"""`offpeak prices` as an operator meets it: a file, a tariff, a zone whose source is played by a local server."""

import json
from pathlib import Path

import pytest

SPRING = ["--from", "2023-03-25", "--to", "2023-03-27"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A price file of five days around the change of the clocks, in which one hour is missing."""
    rows = [f"2023-03-{24 + hour // 24}T{hour % 24:02}:00Z,{hour % 24 * 10}" for hour in range(5 * 24) if hour != 30]
    path = tmp_path / "ours_eur_per_mwh.csv"
    path.write_text("\n".join(["utc,price", *rows, ""]))
    return path


def test_a_day_is_a_line(offpeak, file) -> None:
    lines = offpeak("prices", "--prices", file, *SPRING).stdout.splitlines()
    assert lines[0].startswith("ours_eur_per_mwh.csv, column price: EUR/MWh, published; days of ")
    assert [line.split()[0] for line in lines[3:5]] == ["2023-03-25", "2023-03-26"]
    assert "·" in lines[3]
    assert lines[3].split()[2:] == ["0.00", "117.39", "230.00"]


def test_json_has_every_interval_and_null_for_a_gap(offpeak, file) -> None:
    document = json.loads(offpeak("prices", "--prices", file, *SPRING, "--json").stdout)
    prices = [interval["price"] for interval in document["prices"]]
    assert prices[:8] == [0, 10, 20, 30, 40, 50, None, 70]
    assert document["unit"] == "EUR/MWh"
    assert document["until_s"] - document["from_s"] == 2 * 86_400
    assert all(price["until_s"] - price["from_s"] == 3600 for price in document["prices"])


def test_the_tariff_holds_without_a_file_and_a_zone(offpeak) -> None:
    done = offpeak("prices", "--from", "2026-02-01", "--to", "2026-02-02", "--json")
    document = json.loads(done.stdout)
    assert {interval["price"] for interval in document["prices"]} == {30, 90}
    assert document["basis"] == "assumed tariff"
    first = offpeak("prices", "--tariff", "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-17:00").stdout.splitlines()[0]
    assert ": EUR/MWh, tariff; days of " in first


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--zone", "XX"], "feeds.zone: 'XX' is not a known zone", "known: AT"),
        (["--from", "2023-03-27", "--to", "2023-03-27"], "--to is not after --from", "the end of 2 January"),
        (["--from", "monday"], "'monday' is not a time", "write it like 2026-11-01"),
        (["--price-feeds", "nordpool"], "feeds.prices: 'nordpool' is not a source", "nord-pool"),
        (["--price-feeds", "file"], "the source file has no file", "name it"),
    ],
)
def test_bad_options_are_refused(offpeak, arguments, message, hint) -> None:
    done = offpeak("prices", *arguments)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert message in first
    assert hint in second


def test_a_time_without_prices(offpeak, file) -> None:
    done = offpeak("prices", "--prices", file, "--from", "2024-01-01")
    assert done.returncode == 2
    assert "no price is known for that time: file: not yet published" in done.stderr
    assert "hint: use --from and --to for another time" in done.stderr


def test_a_zone_without_a_network_says_what_was_tried(offpeak, environment, tmp_path) -> None:
    """The proxy is a port at which nobody listens, which is what a pulled cable comes to."""
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        environment[name] = "http://127.0.0.1:9"
    done = offpeak("prices", "--zone", "DE-LU", "--feed-timeout", "2s", "--feed-cache", tmp_path / "cache")
    assert done.returncode == 2
    assert "energy-charts: " in done.stderr
    assert "nord-pool: " in done.stderr
    assert "Traceback" not in done.stderr
