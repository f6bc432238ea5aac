"""The engine and a real Slurm start the same jobs in nearly the same order: a short version of the comparison."""

import numpy as np
import pytest
from needed_programs import need
from slurm_fixtures import PACKAGES, PROGRAMS

from benchmarks.fidelity.compare import spearman
from benchmarks.fidelity.homogeneous import compared, scaled_day


@pytest.mark.thorough
def test_a_few_jobs_start_alike() -> None:
    need(PROGRAMS, packages=PACKAGES)
    found = compared(scaled_day(count=30, hour_s=2.0), "greedy")
    assert found.engine.starts > 0.9
    assert found.slurm_wait_h > 0.0


def test_rank_correlation() -> None:
    rising = np.array([1.0, 2.0, 10.0, 11.0])
    assert spearman(rising, rising**3) == 1.0
    assert spearman(rising, -rising) == -1.0
