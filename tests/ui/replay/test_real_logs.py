"""Every real log at hand, priced by real prices of a country each: answered, with figures that can be.

They lie in the folder `shared` beside the repository; where it is absent there is nothing to test.
"""

import json
import math
from itertools import cycle
from pathlib import Path

import pytest

from offpeak.ui.command import run

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
LOGS = sorted((SHARED / "traces").glob("*.swf.gz"))
PRICES = sorted((SHARED / "prices").glob("*.csv.gz"))
WITHOUT_HEADER = {"XSEDE-synthetic_test": ("--nodes", "8192")}


@pytest.mark.parametrize(("log", "prices"), list(zip(LOGS, cycle(PRICES), strict=False)), ids=lambda path: path.name)
def test_a_real_log_is_answered(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path, prices: Path
) -> None:
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)
    options = WITHOUT_HEADER.get(log.name.removesuffix(".swf.gz"), ())
    assert run(["simulate", str(log), "--prices", str(prices), "--json", *options]) == 0
    printed, errors = capfd.readouterr()
    assert errors == ""
    policies = json.loads(printed)["policies"]
    assert [policy["policy"] for policy in policies] == ["easy", "greedy", "knapsack"]
    for policy in policies:
        figures = [value for value in policy.values() if isinstance(value, int | float)]
        assert all(math.isfinite(figure) for figure in figures)
        assert policy["energy_kwh"] > policy["idle_energy_kwh"] > 0
        assert 0 <= policy["unpriced_kwh"] < 0.3 * policy["energy_kwh"]
        assert 0 < policy["utilization"] <= 1
        assert policy["mean_wait_s"] >= 0
        assert policy["mean_bounded_slowdown"] >= 1
        assert abs(policy["saving_pct"]) < 50
        # Dearer or cheaper than a year's mean of these markets, but not beyond what they ever paid.
        assert -100 < 1000 * policy["cost"] / policy["energy_kwh"] < 1000
