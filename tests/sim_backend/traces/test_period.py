"""Cutting a log to a period loses nothing of what was used in it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from logged_jobs import ROWS, Row, logged, trace_of_jobs

from offpeak.errors import BadTrace
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs, RejectedJobs
from offpeak.sim_backend.traces.filters import FEW_JOBS, between, known_period_s, last_days

pytestmark = pytest.mark.quick

LAST_S = 100


def used(jobs: Jobs, from_s: int, until_s: int) -> list[int]:
    """Units in use at each second."""
    ends = jobs.logged_start_s + jobs.runtime_s
    seconds = np.arange(from_s, until_s)[:, np.newaxis]
    return list((((jobs.logged_start_s <= seconds) & (seconds < ends)) * jobs.size).sum(axis=1))


@given(ROWS, st.integers(0, LAST_S), st.integers(1, LAST_S))
def test_cut_log_keeps_the_use_of_the_period(rows: list[Row], begin_s: int, length_s: int) -> None:
    jobs, until_s = logged(rows), begin_s + length_s
    ends = jobs.logged_start_s + jobs.runtime_s
    assume(((ends > begin_s) & (jobs.logged_start_s <= until_s)).any())
    cut = between(trace_of_jobs(jobs), begin_s, until_s).jobs
    assert used(cut, begin_s, until_s) == used(jobs, begin_s, until_s)
    assert sum(used(cut, 0, begin_s)) == 0
    assert (np.diff(cut.submit_s) >= 0).all()
    assert (cut.submit_s >= begin_s).all()
    assert (cut.submit_s <= cut.logged_start_s).all()


def test_a_job_that_was_running_has_the_rest_of_its_run_and_one_that_was_waiting_its_whole() -> None:
    cut = between(trace_of_jobs(logged([(0, 0, 20, 1), (5, 10, 30, 2)])), 12, 40).jobs
    assert cut.submit_s.tolist() == [12, 12]
    assert cut.logged_start_s.tolist() == [12, 15]
    assert cut.runtime_s.tolist() == [8, 25]


def test_few_jobs_are_whole_from_the_first_start_and_many_from_the_first_end() -> None:
    few = logged([(10, 5, 20, 1), (11, 0, 50, 1)])
    assert known_period_s(few) == (11, 61)
    many = logged([(10, 0, 20 + n, 1) for n in range(FEW_JOBS)])
    assert known_period_s(many) == (29, 10 + 20 + FEW_JOBS - 1)


def test_the_last_days_end_with_the_last_job() -> None:
    jobs = logged([(day * DAY_S, 0, 3600, 1) for day in range(10)])
    cut = last_days(trace_of_jobs(jobs), 3).jobs
    assert cut.job_id.tolist() == jobs.job_id[-3:].tolist()
    assert len(last_days(trace_of_jobs(jobs), None).jobs) == 10


def test_a_log_in_which_nothing_ran_is_refused_and_says_why() -> None:
    none = logged([(0, 0, 20, 1)]).take(np.array([], np.int64))
    waiting = replace(trace_of_jobs(none), rejected=(RejectedJobs("never started", (3, 4)),))
    with pytest.raises(BadTrace, match="a log: no job ran: 2 jobs: never started"):
        last_days(waiting, None)


def test_a_period_in_which_no_job_ran_is_refused() -> None:
    with pytest.raises(BadTrace, match="a log: no job ran in the period asked for"):
        between(trace_of_jobs(logged([(0, 0, 20, 1)])), 30, 40)
