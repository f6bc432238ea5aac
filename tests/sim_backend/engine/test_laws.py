"""What holds for every schedule: nobody starts early, no node is shared, and what each discipline promises."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_logs import (
    DISCIPLINES,
    NO_BOUND_S,
    PLAIN,
    POLICIES,
    engine,
    logs,
    plain,
    rules,
    schedule,
    starts,
)

from offpeak.plugin.window_policy import ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from offpeak.prices.peak import Peak
from offpeak.sim_backend.engine.rules import CONSERVATIVE, EXACT_RUNTIME, FCFS, NEVER, USER_ESTIMATE
from offpeak.sim_backend.engine.state import SLOTS, State

pytestmark = pytest.mark.quick

IDLE_NEVER = tuple(policy for policy in POLICIES if policy != KNAPSACK_SLIDE)
REORDERING = (GREEDY, GREEDY_SLIDE, KNAPSACK)
known_peaks = st.sampled_from([Peak.OFF_PEAK, Peak.ON_PEAK])


def seconds_of(log, rules) -> list[int]:
    """Return all seconds in which something happens, and one before and behind."""
    result = schedule(log, rules)
    times = np.concatenate([log.jobs.submit_s, result.start_s, result.end_s])
    return [-1, *np.unique(times[times >= 0]).tolist(), int(times.max()) + 1]


def held_units(state: State) -> dict[int, int]:
    """Return the units of each job that holds some."""
    holding = state.expected[: state.groups["listed"][0]]
    return dict(zip(state.slots.job[holding].tolist(), state.slots.pieces[holding].tolist(), strict=True))


def arrays(parts) -> list[np.ndarray]:
    """Return all arrays of a nested tuple."""
    if parts is None or isinstance(parts, np.ndarray):
        return [] if parts is None else [parts]
    return [array for part in parts for array in arrays(part)]


@given(logs(), rules(disciplines=DISCIPLINES, policies=IDLE_NEVER))
def test_every_job_starts_once_not_before_its_submission_and_the_machine_is_never_overfull(log, rules):
    result = schedule(log, rules)
    assert (result.start_s >= log.jobs.submit_s).all()
    runtime_s = log.cut_at_estimate().jobs.runtime_s if rules.pass_per_event else log.jobs.runtime_s
    assert (result.end_s - result.start_s == runtime_s).all()
    for second in np.unique(result.start_s):
        running = (result.start_s <= second) & (second < result.end_s)
        assert log.jobs.size[running].sum() <= log.machine_size


@given(logs(), rules(disciplines=DISCIPLINES))
def test_running_jobs_hold_the_units_that_they_request_and_the_others_are_free(log, rules):
    running, result = engine(log, rules), schedule(log, rules)
    for second in seconds_of(log, rules):
        running.go_on(second)
        held = held_units(running.state)
        assert held == {job: log.jobs.size[job] for job in held}
        started = (result.start_s >= 0) & (result.start_s <= second)
        assert set(held) == set(np.flatnonzero(started & (second < result.end_s)).tolist())
        assert running.state.free[SLOTS, 0] == log.machine_size - sum(held.values()) >= 0


@given(logs(), rules(disciplines=DISCIPLINES), st.lists(st.integers(-10, 400), max_size=12))
def test_pausing_changes_nothing(log, rules, pauses):
    paused = engine(log, rules)
    for second in sorted(pauses):
        paused.go_on(second)
        assert paused.start_s.max() <= max(second, -1)
    paused.go_on(NEVER - 1)
    assert paused.start_s.tolist() == starts(log, rules)


@given(logs(), rules(disciplines=DISCIPLINES), st.integers(0, 100))
def test_a_copy_goes_its_own_way(log, rules, second):
    one = engine(log, rules)
    one.go_on(second)
    before = [array.tobytes() for array in arrays(one.state)]
    other = deepcopy(one)
    assert [array.tobytes() for array in arrays(other.state)] == before
    other.go_on(NEVER - 1)
    assert [array.tobytes() for array in arrays(one.state)] == before
    one.go_on(NEVER - 1)
    assert one.state.start_s.tolist() == other.state.start_s.tolist() == starts(log, rules)


@given(logs(), rules(disciplines=DISCIPLINES, policies=IDLE_NEVER, estimates=[USER_ESTIMATE]))
def test_to_know_the_run_times_changes_nothing_where_they_are_the_estimates(log, rules):
    """Where they are known, no heap of ends is kept."""
    log = log.with_exact_estimates()
    assert starts(log, rules._replace(estimates=EXACT_RUNTIME)) == starts(log, rules)


@given(logs(), rules(disciplines=DISCIPLINES))
def test_equal_input_gives_equal_output(log, rules):
    assert starts(log, rules) == starts(log, rules)


@given(logs(), rules(disciplines=[FCFS], policies=[ARRIVAL]))
def test_fcfs_starts_in_submission_order(log, rules):
    assert starts(log, rules) == sorted(starts(log, rules))


@given(logs(), rules(policies=[ARRIVAL], estimates=[EXACT_RUNTIME], periods_s=[0]))
def test_the_first_waiting_job_starts_by_its_reservation_where_estimates_are_exact(log, rules):
    """A reservation is made for the first job that does not fit; later passes may only bring it forward."""
    scheduler = plain(log, rules)
    scheduler.run()
    start_s = starts(log, rules)
    for job, latest_s in scheduler.reservations:
        assert start_s[job] <= latest_s


@given(
    logs(most_jobs=30), rules(disciplines=[CONSERVATIVE], policies=IDLE_NEVER, estimates=[USER_ESTIMATE], periods_s=[0])
)
def test_conservative_keeps_each_promise_where_no_job_runs_longer_than_its_estimate(log, rules):
    """A job's promise is its start as planned in the first pass after its submission."""
    log = log.cut_at_estimate()
    scheduler = plain(log, rules)
    scheduler.run()
    start_s = starts(log, rules)
    assert len(scheduler.first_promise_s) == len(start_s)
    for job, latest_s in scheduler.first_promise_s.items():
        assert start_s[job] <= latest_s


@given(logs(shortest_s=1, most_jobs=30), st.booleans())
def test_conservative_with_exact_estimates_gives_each_job_the_earliest_place_beside_those_before_it(log, per_event):
    log = log.with_exact_estimates()
    jobs = log.jobs
    free = np.full(int(jobs.submit_s[-1] + jobs.runtime_s.sum()) + 1, log.machine_size)
    expected = []
    for submit_s, runtime_s, size in zip(jobs.submit_s, jobs.runtime_s, jobs.size, strict=True):
        start_s = next(s for s in range(submit_s, len(free)) if (free[s : s + runtime_s] >= size).all())
        free[start_s : start_s + runtime_s] -= size
        expected.append(start_s)
    assert starts(log, PLAIN._replace(discipline=CONSERVATIVE, pass_per_event=per_event)) == expected


@given(logs(), rules(disciplines=[FCFS], policies=REORDERING))
def test_under_fcfs_a_job_overtakes_only_within_the_window(log, rules):
    """What lies outside the window keeps its place: when a job starts, fewer than `window` earlier ones still wait."""
    start_s = starts(log, rules)
    for job in range(len(start_s)):
        assert sum(earlier > start_s[job] for earlier in start_s[:job]) < rules.window


@given(logs(), rules(disciplines=[FCFS], policies=IDLE_NEVER))
def test_under_fcfs_a_job_is_overtaken_for_no_longer_than_the_bound(log, rules):
    """From the first start of a later submission on, for `max_postponement_s`; with a bound of 0 within one second."""
    start_s = starts(log, rules)
    for job, own_s in enumerate(start_s):
        overtaken_s = [later for later in start_s[job + 1 :] if later < own_s]
        if overtaken_s:
            assert max(overtaken_s) - min(overtaken_s) <= rules.max_postponement_s


@given(logs(), rules(disciplines=DISCIPLINES))
def test_a_bound_that_is_never_reached_is_no_bound(log, rules):
    longest_s = int(schedule(log, rules).end_s.max())
    unbounded = starts(log, rules._replace(max_postponement_s=NO_BOUND_S))
    # A job that never starts reaches every bound.
    assume(min(unbounded) >= 0)
    longest_s = max(longest_s, max(unbounded) + 1)
    assert starts(log, rules._replace(max_postponement_s=longest_s)) == unbounded


@given(logs(), rules())
def test_without_prices_a_window_policy_changes_nothing(log, rules):
    assert starts(log.with_price(), rules) == starts(log, rules._replace(policy=ARRIVAL))


@given(logs(), rules(policies=[GREEDY, GREEDY_SLIDE]), known_peaks, st.sampled_from([0.0, 1.0, 213.5]))
def test_greedy_changes_nothing_where_all_jobs_draw_the_same(log, rules, peak, power_w):
    """The price is in one state, as each change of it brings a scheduling pass, which finds late jobs later."""
    equal = replace(log.with_price(peak), node_power_w=np.full(len(log.jobs), power_w))
    assert starts(equal, rules) == starts(log, rules._replace(policy=ARRIVAL))


@given(logs(), rules(policies=REORDERING), known_peaks)
def test_a_window_of_one_job_changes_nothing(log, rules, peak):
    assert starts(log.with_price(peak), rules._replace(window=1)) == starts(log, rules._replace(policy=ARRIVAL))
