"""The engine and a real Slurm start the same jobs in nearly the same order: a short version of the comparison."""

import numpy as np
import pytest
from needed_programs import need
from slurm_fixtures import PACKAGES, PROGRAMS
from study_tables import stored

from benchmarks.fidelity.compare import spearman
from benchmarks.fidelity.homogeneous import chance_of, compared, scaled_day


@pytest.mark.thorough
def test_a_few_jobs_start_alike() -> None:
    need(PROGRAMS, packages=PACKAGES)
    found = compared(scaled_day(count=30, hour_s=2.0), "greedy")
    assert found.engine.starts > 0.9
    assert found.slurm_wait_h > 0.0


@pytest.mark.thorough
def test_documented_replays_of_the_engine_come_out_again() -> None:
    chance = chance_of(scaled_day(), "greedy", 0.5)
    wait = f"{chance.median_wait_h:.1f} h ({chance.least_wait_h:.1f} to {chance.most_wait_h:.1f})"
    headers, *rows = stored("fidelity/hours")
    assert rows[0][headers.index("`greedy`")] == wait
    savings = [row[:2] for row in stored("fidelity/savings")]
    assert ["mean wait in the engine, median and range of 100 replays", wait] in savings
    again = [cell for what, cell in savings if what == "the same, replays of the engine against each other"]
    assert again == [f"{chance.alike.starts:.3f}", f"{chance.alike.waits:.2f}"]


def test_rank_correlation() -> None:
    rising = np.array([1.0, 2.0, 10.0, 11.0])
    assert spearman(rising, rising**3) == 1.0
    assert spearman(rising, -rising) == -1.0
