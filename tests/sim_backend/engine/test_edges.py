"""Bursts, single jobs, very long and empty runs, machine-wide jobs, periods, and a policy that idles on-peak."""

import numpy as np
import pytest
from hypothesis import given
from random_logs import BACKFILLING, DISCIPLINES, PLAIN, POLICIES, log_of, logs, plain, rules, schedule, starts

from offpeak.plugin.window_policy import KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import EASY, FIRST_FIT, PREDICTED_RUNTIME

pytestmark = pytest.mark.quick

ONE_W = 1

every_discipline = pytest.mark.parametrize("discipline", DISCIPLINES)
per_event_or_second = pytest.mark.parametrize("per_event", [False, True])


@every_discipline
@per_event_or_second
def test_two_thousand_jobs_of_one_second_run_in_rows(discipline, per_event):
    log = log_of([(5, 3, 3, 1, ONE_W)] * 2000, machine_size=40)
    rows_s = np.repeat(np.arange(5, 155, 3), 40)
    assert starts(log, PLAIN._replace(discipline=discipline, pass_per_event=per_event)) == rows_s.tolist()


@pytest.mark.parametrize("discipline", BACKFILLING)
def test_a_mixed_burst_of_two_thousand_jobs_never_overfills_the_machine(discipline):
    random = np.random.default_rng(discipline)
    size = random.integers(1, 200, 2000)
    run = random.integers(50, 3000, 2000)
    log = log_of([(9, r, 3 * r, s, ONE_W) for r, s in zip(run, size, strict=True)], machine_size=200)
    result = schedule(log, PLAIN._replace(discipline=discipline))
    for second in np.unique(result.start_s):
        assert log.jobs.size[(result.start_s <= second) & (second < result.end_s)].sum() <= 200


@every_discipline
@per_event_or_second
@pytest.mark.parametrize("policy", POLICIES)
def test_a_single_job_starts_at_once(discipline, policy, per_event):
    log = log_of([(17, 100, 10, 3, ONE_W)], machine_size=3, peaks=[(0, Peak.OFF_PEAK)])
    assert starts(log, PLAIN._replace(discipline=discipline, policy=policy, pass_per_event=per_event)) == [17]


@every_discipline
def test_a_run_of_68_years_ends(discipline):
    years_s = 2**31
    log = log_of([(0, years_s, years_s, 2, ONE_W), (1, 5, 5, 2, ONE_W), (2, 2**40, 2**40, 1, ONE_W)], machine_size=2)
    assert starts(log, PLAIN._replace(discipline=discipline)) == [0, years_s, years_s + 5]


@every_discipline
@per_event_or_second
def test_a_job_of_no_time_leaves_its_nodes_in_the_same_second(discipline, per_event):
    log = log_of([(3, 0, 0, 4, ONE_W)] * 5 + [(3, 9, 9, 4, ONE_W), (4, 0, 0, 1, ONE_W)], machine_size=4)
    assert starts(log, PLAIN._replace(discipline=discipline, pass_per_event=per_event)) == [3] * 6 + [12]


def test_with_a_pass_per_event_more_jobs_may_wait_for_their_end_than_the_machine_has_units():
    """Submissions come before ends: a job that ends in this second has no nodes, but has not ended."""
    log = log_of([(0, 10, 10, 1, ONE_W), *[(10, 0, 0, 1, ONE_W)] * 500, (10, 5, 5, 1, ONE_W)], machine_size=1)
    assert starts(log, PLAIN._replace(pass_per_event=True)) == [0] + [10] * 501


def test_with_a_pass_per_event_a_job_that_outlives_its_prediction_keeps_its_nodes():
    log = log_of(
        [(0, 1, 99, 1, ONE_W), (5, 1, 99, 1, ONE_W), (10, 50, 99, 1, ONE_W), (20, 5, 99, 1, ONE_W)], machine_size=1
    )
    assert starts(log, PLAIN._replace(estimates=PREDICTED_RUNTIME, pass_per_event=True)) == [0, 5, 10, 60]


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0, 0, 2, ONE_W), (0, 0, 0, 2, ONE_W), (0, 1, 0, 1, ONE_W)],
        [(0, 5, 1, 1, ONE_W), (3, 0, 0, 2, ONE_W), (3, 0, 0, 2, ONE_W)],
    ],
)
@every_discipline
def test_a_late_job_takes_its_units_once_in_a_second_of_two_passes(discipline, rows):
    log = log_of(rows, machine_size=3)
    assert starts(log, PLAIN._replace(discipline=discipline)) == log.jobs.submit_s.tolist()


@pytest.mark.parametrize("machine_size", [1, 63, 64, 65, 128, 1000])
@every_discipline
def test_machine_wide_jobs_follow_each_other(discipline, machine_size):
    log = log_of([(at, 10, 20, machine_size, ONE_W) for at in range(50)], machine_size=machine_size)
    assert starts(log, PLAIN._replace(discipline=discipline)) == list(range(0, 500, 10))


@given(logs(), rules(disciplines=DISCIPLINES, periods_s=(10, 20, 30)))
def test_with_a_period_jobs_start_at_its_multiples(log, rules):
    assert all(start_s % rules.period_s == 0 for start_s in starts(log, rules) if start_s >= 0)


def test_passes_come_at_the_next_multiple_of_the_period():
    log = log_of([(1, 4, 9, 1, ONE_W), (1, 4, 9, 1, ONE_W), (20, 1, 9, 1, ONE_W), (21, 1, 9, 1, ONE_W)], machine_size=1)
    assert starts(log, PLAIN._replace(period_s=10)) == [10, 20, 30, 40]


@given(logs(), rules(disciplines=DISCIPLINES, policies=[KNAPSACK_SLIDE]))
def test_the_slides_knapsack_starts_nothing_on_peak_while_no_bound_is_exceeded(log, rules):
    start_s = np.array(starts(log, rules._replace(max_postponement_s=10**9)))
    last_change = np.searchsorted(log.peaks.at_s, start_s[start_s >= 0], side="right") - 1
    peak = np.append(log.peaks.peak, Peak.UNKNOWN)[last_change]
    assert Peak.ON_PEAK not in peak


def test_the_slides_knapsack_starts_an_overdue_job_on_peak_and_nothing_beside_it():
    rows = [(0, 100, 100, 3, ONE_W), (1, 50, 50, 4, ONE_W), (2, 5, 5, 1, ONE_W), (20, 1, 1, 1, ONE_W)]
    # The third job passes the second over while the price is unknown; the last one would fit beside the reservation.
    log = log_of(rows, machine_size=4, peaks=[(6, Peak.ON_PEAK)])
    for discipline in (EASY, FIRST_FIT):
        on_peak = PLAIN._replace(discipline=discipline, policy=KNAPSACK_SLIDE, window=1, max_postponement_s=0)
        assert starts(log, on_peak) == [0, 100, 2, -1]


def test_waiting_job_starts_when_the_price_falls():
    log = log_of(
        [(1, 5, 5, 1, ONE_W), (2, 5, 5, 1, ONE_W)], machine_size=9, peaks=[(0, Peak.ON_PEAK), (60, Peak.OFF_PEAK)]
    )
    assert starts(log, PLAIN._replace(policy=KNAPSACK_SLIDE)) == [60, 60]


@pytest.mark.parametrize("discipline", BACKFILLING)
def test_no_job_is_backfilled_that_the_policy_leaves_for_later(discipline):
    """A knapsack that may idle on-peak keeps only the jobs that were passed over for too long: here one, too wide."""
    rows = [(0, 0, 0, 1, ONE_W), *[(1, 0, 0, size, ONE_W) for size in (1, 2, 1, 1)], (1, 2, 0, 1, ONE_W)]
    peaks = [(1, Peak.OFF_PEAK), (2, Peak.ON_PEAK)]
    log = log_of([*rows, (1, 0, 0, 1, ONE_W), (1, 0, 0, 2, ONE_W)], machine_size=2, peaks=peaks)
    rules = PLAIN._replace(discipline=discipline, policy=KNAPSACK_SLIDE, window=2, max_postponement_s=0)
    assert starts(log, rules) == plain(log, rules).run()
