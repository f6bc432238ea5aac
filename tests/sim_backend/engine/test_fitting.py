"""What searches have learned of a long queue changes nothing but their time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import BACKFILLING, PLAIN, log_of, plain, starts

from offpeak.sim_backend.engine.fitting import BLOCK, CLASSES, StartLimits, next_fitting, next_fitting_of_many
from offpeak.sim_backend.engine.rules import NEVER

ONE_W = 1


def searches(seed: int, *, jobs: int, widest: int, rounds: int):
    """Search a queue in which what is found leaves a hole, from random places; yield what both searches find."""
    random = np.random.default_rng(seed)
    size, estimate_s = random.integers(1, widest + 1, jobs), random.integers(0, 1000, jobs)
    bounds = np.zeros((CLASSES, -(-jobs // BLOCK)), dtype=np.int64)
    for _ in range(rounds):
        first = int(random.integers(0, jobs)) if random.random() < 0.3 else 0
        free = int(random.integers(0, widest + 1))
        extra = int(random.integers(-1, max(2, free // 4)))
        search = (first, jobs, StartLimits(free, extra, int(random.integers(-1, 60))))
        found = next_fitting(size, estimate_s, *search)
        yield found, next_fitting_of_many(size, estimate_s, bounds, *search)
        if found < jobs:
            size[found] = NEVER


@given(st.integers(0, 2**32), st.integers(1, 3000), st.sampled_from([1, 2, 7, 8, 9, 100, 2**30]))
def test_fitting_search_equals_a_plain_search(seed, jobs, widest):
    for found, soon_found in searches(seed, jobs=jobs, widest=widest, rounds=150):
        assert soon_found == found


@pytest.mark.parametrize("discipline", BACKFILLING)
@pytest.mark.parametrize("seed", range(3))
def test_a_long_queue_starts_as_the_plain_scheduler_starts_it(discipline, seed):
    """The queue is compacted several times, and jobs are submitted in between."""
    random = np.random.default_rng(seed)
    submit_s = np.sort(random.choice([0, 0, 0, 40, 900], 500)).tolist()
    estimate_s, size = random.integers(1, 60, 500).tolist(), random.integers(1, 12, 500).tolist()
    runtime_s = [int(random.integers(0, estimate + 3)) for estimate in estimate_s]
    rows = [(*row, ONE_W) for row in zip(submit_s, runtime_s, estimate_s, size, strict=True)]
    log, rules = log_of(rows, machine_size=40), PLAIN._replace(discipline=discipline)
    assert starts(log, rules) == plain(log, rules).run()
