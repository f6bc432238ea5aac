"""`offpeak simulate --facility`: what the machine room adds."""

import json

import pytest

from offpeak.sim_backend.sample import SAMPLE_LOG

SIMULATE = ("simulate", SAMPLE_LOG, "--policy", "easy,greedy")


def test_simulate_says_what_cooling_adds_and_leaves_the_rest(offpeak) -> None:
    cooled = (
        "--facility",
        "hybrid",
        "--outside",
        "30",
        "--capacity",
        "always-on,timeout:10min",
        "--carbon",
        "400g/kWh",
    )
    with_room = json.loads(offpeak(*SIMULATE, *cooled, "--json").stdout)["policies"]
    without = json.loads(offpeak(*SIMULATE, *cooled[4:], "--json").stdout)["policies"]
    for policy, other in zip(with_room, without, strict=True):
        assert policy["cost"] == other["cost"]
        assert other["pue"] is None
        assert policy["pue"] == pytest.approx(1 + policy["cooling_kwh"] / policy["energy_kwh"])
        assert policy["cooling_co2_kg"] == pytest.approx(0.4 * policy["cooling_kwh"])
    sleeping = with_room[2]
    assert sleeping["cooling_kwh"] < with_room[0]["cooling_kwh"]
    both = [policy["cost"] + policy["cooling_cost"] for policy in with_room]
    # The sleeping nodes end later, and the first row does not have the cooling until then.
    assert sleeping["cooled_saving_pct"] == pytest.approx(100 * (1 - both[2] / both[0]), rel=2e-3)


def test_table_and_report_say_it_too(offpeak, tmp_path) -> None:
    done = offpeak(*SIMULATE, "--facility", "air", "--outside", "59", "--report", tmp_path / "report.html")
    assert "cooling" in done.stdout
    assert "lie outside its table" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "<caption>The machine room</caption>" in page
    row = next(line for line in done.stdout.splitlines() if line.startswith("greedy") and line.count("%") == 1)
    assert all(cell in page for cell in row.split())


def test_a_facility_that_is_none_is_one_clear_line(offpeak) -> None:
    done = offpeak(*SIMULATE, "--facility", "airy")
    assert done.returncode == 2
    assert "'airy' is not a facility" in done.stderr
