"""Ranges over weeks of the prices hold weeks that they do not know, on recorded logs and on a week of the sample."""

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coverage import (
    HELD_BACK,
    LOGS,
    WeekSaving,
    recorded,
    savings_of_weeks,
    table,
    weeks_held,
    years_held,
)
from benchmarks.savings import SLEEP
from sim_backend.comparison.replications import alignment_interval_of, interval_of
from sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES
from sim_backend.traces.swf.read import read_swf

ROOT = Path(__file__).resolve().parents[2]
LINES = 300


def test_the_page_of_benchmarks_has_the_table_of_the_record() -> None:
    lines = (ROOT / "docs/benchmarks.md").read_text().splitlines()
    for line in table(recorded()):
        assert line in lines


def test_nineteen_of_twenty_recorded_weeks_lie_in_the_ranges_of_others() -> None:
    found = recorded()
    assert set(found) == {(log, policy) for log in LOGS for policy in ("greedy", SLEEP)}
    for count in (HELD_BACK, None):
        counts = [weeks_held(savings, alignment_interval_of, count) for savings in found.values()]
        assert sum(each.held for each in counts) >= 0.95 * sum(each.of for each in counts)
    for savings in found.values():
        assert len({each.start for each in savings}) == len(savings) > HELD_BACK


def test_a_week_is_not_in_the_range_that_must_hold_it() -> None:
    savings = [WeekSaving("log", f"2020-01-{day:02}", "greedy", 100.0 if day == 15 else 1.0) for day in range(1, 31)]
    held = weeks_held(savings, interval_of)
    assert held.of == 30
    assert held.held == 29, "the outlier lies in no range of others, and each other week in every range"


def test_a_year_is_held_back_whole() -> None:
    rng = np.random.default_rng(1)
    savings = [
        WeekSaving("log", f"{year}-01-{day:02}", "greedy", level + rng.normal())
        for year, level in (("2020", 0.0), ("2021", 0.0), ("2022", 50.0))
        for day in range(1, 21)
    ]
    assert years_held(savings, alignment_interval_of).held <= 40
    assert weeks_held(savings, alignment_interval_of).held >= 57


@pytest.mark.thorough
def test_each_week_of_the_prices_is_a_row(tmp_path: Path) -> None:
    log = tmp_path / "undated.swf"
    with gzip.open(SAMPLE_LOG, "rt") as sample:
        log.write_text("".join(line for line in islice(sample, LINES) if "UnixStartTime" not in line))
    found = list(savings_of_weeks("undated", read_swf(log), SAMPLE_PRICES))
    greedy, asleep = ([each for each in found if each.policy == policy] for policy in ("greedy", SLEEP))
    assert len(greedy) == len(asleep) > 40
    assert {each.start for each in greedy} == {each.start for each in asleep}
    assert len({each.start for each in greedy}) == len(greedy)
    assert min(each.saving_pct for each in asleep) > 0
    assert weeks_held(greedy + asleep, alignment_interval_of).of == len(found)
