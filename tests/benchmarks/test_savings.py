"""README and docs/benchmarks.md quote the recorded savings, and what was recorded comes out again."""

import gzip
import json
import subprocess
from dataclasses import astuple
from datetime import date
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from zygote import Zygote

from benchmarks.logs import price_file, trace_file
from benchmarks.savings import ORDERS, SLEEP, Laid, hours, laid_on, mondays, over, recorded, table, waits_text
from offpeak.model.constants import DAY_S, WEEK_S
from offpeak.model.step_series import Series
from sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES
from sim_backend.traces.swf.read import read_swf

ROOT = Path(__file__).resolve().parents[2]
LOG = "SDSC-BLUE"
LINES = 400
"""Of the sample: a week."""


def page(name: str) -> str:
    """Return a page as one line, so that texts are found across its line breaks."""
    return " ".join((ROOT / name).read_text().split())


def test_the_readme_quotes_the_record() -> None:
    found, readme = recorded(), page("README.md")
    for policy in (SLEEP, *ORDERS):
        saved = over([each.saving_pct for each in found[LOG, policy]])
        assert f"{saved.text(2)} %" in readme, (policy, saved.text(2))
        assert waits_text(found[LOG, policy]) in readme, waits_text(found[LOG, policy])
    assert f"{hours(found[LOG, SLEEP][0].easy_wait_s)} h without it" in readme
    assert f"{len(found[LOG, SLEEP])} weeks" in readme
    medians = [over([row.saving_pct for row in rows]).median for (_, policy), rows in found.items() if policy == SLEEP]
    assert f"{min(medians):.0f} to {max(medians):.0f} %" in readme


def test_sleeping_comes_before_ordering() -> None:
    readme = page("README.md")
    assert readme.index("idle nodes sleep") < readme.index("greedy order")


def test_the_page_of_benchmarks_has_the_table_of_the_record() -> None:
    lines = (ROOT / "docs/benchmarks.md").read_text().splitlines()
    for line in table(recorded()):
        assert line in lines


def test_each_log_was_laid_on_a_dozen_mondays_and_more() -> None:
    for (log, policy), rows in recorded().items():
        starts = [date.fromisoformat(row.start) for row in rows]
        assert len(set(starts)) == len(starts) >= 12, (log, policy)
        assert {start.weekday() for start in starts} == {0}


def test_mondays_leave_room_for_the_whole_log() -> None:
    prices = Series(np.array([0]), 100 * WEEK_S, np.array([1.0]), "EUR/MWh", "test")
    found = mondays(prices, 40 * WEEK_S, 5)
    assert found[0] == date(1970, 1, 5)
    assert len(found) == 5
    assert 39 * WEEK_S < (found[-1] - date(1970, 1, 1)).days * DAY_S <= 60 * WEEK_S


@pytest.mark.thorough
def test_a_row_is_what_the_command_prints(tmp_path: Path, zygote: Zygote) -> None:
    log = tmp_path / "week.swf"
    with gzip.open(SAMPLE_LOG, "rt") as sample:
        log.write_text("".join(islice(sample, LINES)))
    rows = {each.policy: each for each in laid_on("week", read_swf(log), SAMPLE_PRICES, date(2023, 5, 1))}
    command = [zygote.command, "simulate", log, "--policy", "easy,greedy,knapsack", "--start", "2023-05-01"]
    done = subprocess.run([*command, "--prices", SAMPLE_PRICES, "--json"], capture_output=True, text=True, check=True)
    printed = {policy["policy"]: policy for policy in json.loads(done.stdout)["policies"]}
    for policy in ORDERS:
        assert rows[policy].saving_pct == pytest.approx(printed[policy]["saving_pct"], abs=1e-4)
        assert rows[policy].mean_wait_s == pytest.approx(printed[policy]["mean_wait_s"], abs=0.1)
        assert rows[policy].easy_wait_s == pytest.approx(printed["easy"]["mean_wait_s"], abs=0.1)
    assert rows[SLEEP].saving_pct > 0


@pytest.mark.thorough
def test_a_recorded_row_comes_out_again(shared: Path) -> None:
    assert shared.is_dir()
    if not trace_file("KTH-SP2").exists():
        pytest.skip("the logs do not lie where the benchmarks look for them")
    start = recorded()["KTH-SP2", SLEEP][5].start
    expected = [row for rows in recorded().values() for row in rows if (row.log, row.start) == ("KTH-SP2", start)]
    again = list(laid_on("KTH-SP2", read_swf(trace_file("KTH-SP2")), price_file(), date.fromisoformat(start)))
    assert sorted(map(astuple, again)) == sorted(map(astuple, expected))
    assert isinstance(again[0], Laid)
