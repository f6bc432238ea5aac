"""Replays with a window policy written in Python: what such a policy sees, what it may answer, what comes of it."""

import sys
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import DISCIPLINES, PLAIN, Log, log_of, logs, rules, schedule, starts

from offpeak.errors import OffpeakError
from offpeak.plugin.window_policy import ARRIVAL, EXTERNAL, GREEDY, NO_POLICY, WindowPolicy, checked_ranks
from offpeak.prices.peak import Peak
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.electricity import peak_times
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.engine.rules import FCFS, PREDICTED_RUNTIME
from offpeak.sim_backend.replay.equal_nodes import replay
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.replay.schedule import JOBS_PER_STEP
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES
from offpeak.sim_backend.traces.swf.read import read_swf

pytestmark = pytest.mark.quick

ROWS = [(5, 10, 30, 4, 100, 0), (6, 10, 10, 2, 300, 1), (7, 20, 40, 2, 200, 1), (8, 10, 20, 1, 400, 0)]
FOUR_JOBS = log_of(ROWS, machine_size=4, peaks=[(0, Peak.OFF_PEAK)])


def python_greedy(view):
    """Greedy once more, in Python."""
    if view.peak == Peak.UNKNOWN:
        return []
    sign = -1 if view.peak == Peak.OFF_PEAK else 1
    return sorted(range(len(view.size)), key=lambda rank: sign * view.node_power_w[rank])


def outside(order, rules=PLAIN) -> Policy:
    """Return the policy whose window is ordered by that function."""
    by_function = WindowPolicy("own", EXTERNAL, "", order=order)
    return Policy("easy+own", rules._replace(policy=EXTERNAL), by_function, kill_at_estimate=rules.pass_per_event)


def outside_starts(log: Log, order, rules=PLAIN) -> list[int]:
    result = replay(
        log.jobs, log.node_power_w, machine_size=log.machine_size, policy=outside(order, rules), peaks=log.peaks
    )
    return result.start_s.tolist()


def views_of(log: Log, rules=PLAIN) -> list:
    """Return what a policy that leaves the order alone has seen."""
    views = []
    outside_starts(log, lambda view: views.append(view) or [], rules)
    return views


def test_a_python_policy_that_sorts_by_power_makes_greedys_schedule_of_the_sample():
    prepared = prepare(read_swf(SAMPLE_LOG), Settings(prices=PriceSettings(file=SAMPLE_PRICES)), start=None)
    case = prepared.case
    peaks = peak_times(case.prices)
    built_in = parse_policy("greedy", SchedulingSettings())
    by_policy = {
        policy.name: replay(case.jobs, case.node_power_w, machine_size=case.machine.size, policy=policy, peaks=peaks)
        for policy in (built_in, outside(python_greedy, built_in.rules), parse_policy("easy", SchedulingSettings()))
    }
    assert (by_policy["greedy"].start_s == by_policy["easy+own"].start_s).all()
    assert (by_policy["greedy"].start_s != by_policy["easy"].start_s).any()


@given(logs(), rules(disciplines=DISCIPLINES, policies=[GREEDY]))
def test_a_python_policy_is_as_good_as_a_compiled_one(log, rules):
    assert outside_starts(log, python_greedy, rules) == starts(log, rules)


@given(
    logs(), rules(), st.sampled_from([lambda _: [], lambda view: range(len(view.size)), lambda _: np.array([], int)])
)
def test_a_policy_that_leaves_the_order_alone_changes_nothing(log, rules, order):
    assert outside_starts(log.with_price(), order, rules) == starts(log, rules._replace(policy=ARRIVAL))


def test_ranks_left_out_follow_in_submission_order():
    rows = [(0, 10, 10, 1, 1)] * 5
    one_unit = log_of(rows, machine_size=1)
    fcfs = PLAIN._replace(discipline=FCFS, window=5)

    def last_then_second(view):
        return [4, 1] if len(view.size) == 5 else []

    assert outside_starts(one_unit, last_then_second, fcfs) == [10, 20, 30, 40, 0]
    assert outside_starts(log_of(rows[:2], machine_size=2), lambda _: [], fcfs) == [0, 0]
    assert checked_ranks("own", [3, 0], 5) == [3, 0, 1, 2, 4]


def test_what_a_policy_sees():
    first, second, *_ = views_of(FOUR_JOBS)
    assert (first.now_s, first.peak, first.free) == (5, Peak.OFF_PEAK, 4)
    assert (second.now_s, second.free) == (15, 4)
    assert second.job_id.tolist() == [2, 3, 4]
    assert second.size.tolist() == [2, 2, 1]
    assert second.estimate_s.tolist() == [10, 40, 20]
    assert second.waited_s.tolist() == [9, 8, 7]
    assert second.node_power_w.tolist() == [300, 200, 400]


def test_a_policy_sees_its_window_only():
    views = views_of(FOUR_JOBS, PLAIN._replace(window=2))
    assert max(len(view.size) for view in views) == 2
    assert views[1].job_id.tolist() == [2, 3]


def test_without_prices_a_policy_still_decides_and_knows_it():
    assert {view.peak for view in views_of(log_of(ROWS, machine_size=4))} == {Peak.UNKNOWN}


def test_a_policy_sees_the_prices_state_change():
    changing = log_of(ROWS, machine_size=4, peaks=[(5, Peak.ON_PEAK), (12, Peak.OFF_PEAK), (30, Peak.UNKNOWN)])
    seen = {view.now_s: view.peak for view in views_of(changing)}
    assert seen[5] == Peak.ON_PEAK
    assert seen[15] == Peak.OFF_PEAK
    assert all(isinstance(peak, Peak) for peak in seen.values())


def test_the_views_columns_are_read_only():
    for view in views_of(FOUR_JOBS):
        columns = [getattr(view, field.name) for field in fields(view)]
        for column in columns:
            if isinstance(column, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    column[0] = 0


@pytest.mark.parametrize("answer", [None, 3, object(), ["a"], [None], [[0], [1]]])
def test_an_answer_that_is_no_list_of_ranks_is_refused(answer):
    with pytest.raises(OffpeakError, match=r"^the window policy 'own' returned ") as error:
        outside_starts(FOUR_JOBS, lambda _: answer)
    assert error.value.hint == "it must return ranks of the window"


@pytest.mark.parametrize("answer", [[0, 0], [1], [-1], [0, 7]])
def test_an_answer_with_wrong_ranks_is_refused(answer):
    with pytest.raises(OffpeakError, match=r"which is not an order of 1 job$") as error:
        outside_starts(FOUR_JOBS, lambda _: answer)
    assert error.value.hint == "it must return each rank from 0 to the window's length at most once"


def fails(_view):
    raise ValueError("no such tariff\nat all")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (fails, r"^the window policy 'own' failed: ValueError: no such tariff.*at all \(test_replay.py, line \d+\)$"),
        (lambda _: sys.exit(), r"^the window policy 'own' has ended the program$"),
    ],
)
def test_a_policy_that_fails_ends_the_replay_with_one_line(order, message):
    with pytest.raises(OffpeakError, match=message) as error:
        outside_starts(FOUR_JOBS, order)
    assert "\n" not in str(error.value)
    assert error.value.hint


@given(st.integers(0, 8), st.data())
def test_an_order_is_completed_to_a_permutation(window, data):
    given_ranks = data.draw(st.permutations(range(window)))[: data.draw(st.integers(0, window))]
    ranks = checked_ranks("own", np.array(given_ranks, dtype=int), window)
    assert ranks[: len(given_ranks)] == given_ranks
    assert sorted(ranks) == list(range(window))
    assert ranks[len(given_ranks) :] == sorted(ranks[len(given_ranks) :])


def test_job_passed_over_for_too_long_keeps_its_place_under_any_policy():
    rows = [(0, 10, 10, 1, 1)] + [(at, 10, 10, 1, 1) for at in range(1, 50, 5)]

    def latest_first(view):
        return range(len(view.size) - 1, -1, -1)

    one_unit = log_of(rows, machine_size=1)
    fcfs = PLAIN._replace(discipline=FCFS, window=20)
    unbounded = outside_starts(one_unit, latest_first, fcfs)
    assert unbounded[1] == max(unbounded)
    # The second job is overtaken at 10 s; from 26 s on it is first.
    assert outside_starts(one_unit, latest_first, fcfs._replace(max_postponement_s=15))[1] == 30


def test_progress_is_reported_after_each_step():
    jobs = 2 * JOBS_PER_STEP + 1
    log = log_of([(at, 1, 1, 1, 1) for at in range(jobs)], machine_size=1)
    reported: list[int] = []
    easy = parse_policy("easy", SchedulingSettings())
    result = replay(log.jobs, log.node_power_w, machine_size=1, policy=easy, progress=reported.append)
    assert reported == [JOBS_PER_STEP, 2 * JOBS_PER_STEP, jobs]
    assert (result.start_s == log.jobs.submit_s).all()
    assert result.simulate_s > 0


def test_a_job_beyond_its_estimate_runs_on_unless_it_is_ended():
    log = log_of([(0, 50, 20, 1, 1), (1, 5, 5, 1, 1)], machine_size=1)
    ends = {}
    for kill in (False, True):
        policy = parse_policy("fcfs", SchedulingSettings(kill_at_estimate=kill))
        ends[kill] = replay(log.jobs, log.node_power_w, machine_size=1, policy=policy).end_s.tolist()
    assert ends == {False: [50, 55], True: [20, 25]}


@given(logs(), st.sampled_from(DISCIPLINES), st.booleans())
def test_a_prediction_that_is_too_short_ends_no_job_and_gives_its_nodes_to_nobody(log, discipline, kill):
    predicted = Policy("", PLAIN._replace(discipline=discipline, estimates=PREDICTED_RUNTIME), NO_POLICY, kill)
    result = replay(log.jobs, log.node_power_w, machine_size=log.machine_size, policy=predicted)
    expected_s = log.cut_at_estimate().jobs.runtime_s if kill else log.jobs.runtime_s
    assert (result.end_s - result.start_s).tolist() == expected_s.tolist()
    for at_s in result.start_s.tolist():
        runs = (result.start_s <= at_s) & (result.end_s > at_s)
        assert log.jobs.size[runs].sum() <= log.machine_size


@given(logs(), rules())
def test_a_replay_changes_none_of_its_inputs(log, rules):
    columns = [column for field in fields(log.jobs) if (column := getattr(log.jobs, field.name)) is not None]
    before = [column.tobytes() for column in columns]
    schedule(log, rules)
    assert [column.tobytes() for column in columns] == before
