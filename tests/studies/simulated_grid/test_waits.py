"""What sites say of waits: the longest possible, the learned, and those that are wrong by chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_grids import UNITS, jobs_of, log_of, site_of

from offpeak.predictors.waits.similar_jobs import SimilarJobs
from offpeak.predictors.waits.states import log_rows
from offpeak_studies.simulated_grid.broker import (
    LearnedWaits,
    LongestWaits,
    Moment,
    NoisyWaits,
    ZeroGridWaits,
    run_grid,
)
from offpeak_studies.simulated_grid.grid import SimulatedGrid

rows = st.tuples(st.integers(0, 60), st.integers(1, 50), st.integers(0, 30), st.integers(1, UNITS))


class RecordedWaits:
    """Keeps what waits were told of each job, and lets it run at site 0."""

    def __init__(self, waits) -> None:
        self.waits = waits
        self.waits_s = []

    def choose(self, moment: Moment):
        self.waits_s += self.waits.wait_s(moment)[:, 0].tolist()
        return np.zeros(len(moment.job), np.int64)


@given(log=st.lists(rows, min_size=1, max_size=20))
def test_without_overtaking_nobody_waits_longer_and_with_true_estimates_all_wait_so_long(log) -> None:
    jobs = jobs_of(log)
    alone = np.append(True, np.diff(jobs.submit_s) > 0)
    for exact in (False, True):
        recorded = RecordedWaits(LongestWaits())
        logged = jobs_of([(row[0], row[1], 0, row[3]) for row in log]) if exact else jobs
        schedule = run_grid(SimulatedGrid((site_of("fcfs"),), log_of(logged)), recorded)
        waited_s = schedule.start_s - logged.submit_s
        # Of jobs of one second each is told of those before that second.
        assert (waited_s <= recorded.waits_s)[alone].all()
        if exact:
            assert waited_s[alone].tolist() == np.array(recorded.waits_s)[alone].tolist()


def test_a_job_that_is_too_wide_waits_until_the_site_is_empty() -> None:
    recorded = RecordedWaits(LongestWaits())
    jobs = jobs_of([(0, 50, 0, 2), (10, 5, 0, 8)])
    grid = SimulatedGrid((site_of(units=2), site_of(units=8, name="away")), log_of(jobs, home=[0, 1]))

    class Home(RecordedWaits):
        def choose(self, moment: Moment):
            super().choose(moment)
            return moment.grid.log.home[moment.job]

    recorded = Home(LongestWaits())
    run_grid(grid, recorded)
    assert recorded.waits_s == [0, 40]


def test_predictors_learn_only_what_was_known_at_submission() -> None:
    rng = np.random.default_rng(3)
    jobs = jobs_of([(second, int(rng.integers(1, 90)), 20, int(rng.integers(1, 6))) for second in range(0, 900, 9)])
    seen = []

    class Watching(SimilarJobs):
        def learn(self, outcome, at_s):
            seen.extend(zip(outcome.questions.rows.tolist(), outcome.wait_s.tolist(), strict=True))
            super().learn(outcome, at_s)

    recorded = RecordedWaits(LearnedWaits(Watching))
    schedule = run_grid(SimulatedGrid((site_of(),), log_of(jobs)), recorded)
    known = log_rows(jobs, schedule.start_s, schedule.end_s, units=UNITS)
    wait_s = schedule.start_s - jobs.submit_s
    expected = {(tuple(row), int(wait)) for row, wait in zip(known.tolist(), wait_s.tolist(), strict=True)}
    assert len(seen) > 40
    assert all((tuple(row), wait) in expected for row, wait in seen)
    assert min(recorded.waits_s) >= 0


def test_noisy_waits_are_longer_by_at_most_the_bound_and_reproducible() -> None:
    jobs = jobs_of([(second, 5, 0, 1) for second in range(40)])
    grid = SimulatedGrid((site_of(),), log_of(jobs))
    runs = [RecordedWaits(NoisyWaits(ZeroGridWaits(), 2.0, seed)) for seed in (1, 1, 2)]
    for recorded in runs:
        run_grid(grid, recorded)
    assert runs[0].waits_s == runs[1].waits_s != runs[2].waits_s
    assert 0 <= min(runs[0].waits_s) < 3600 < max(runs[0].waits_s) <= 7200
    assert np.mean(runs[0].waits_s) == pytest.approx(3600, rel=0.3)
