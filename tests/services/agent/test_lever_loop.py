"""The times in which the agent has seen all jobs, and the jobs that have not ended."""

import pytest
from queue_site import NOW_S, a_job

from offpeak.model.constants import HOUR_S, MINUTE_S
from offpeak.model.time_range import TimeRange
from plugin.scheduler.job import JobState
from plugin.scheduler.port import SchedulerView
from services.accounts.job_draws import JobDraw
from services.accounts.lever_site import jobs_not_ended
from services.agent.lever_loop import KEEP_WATCHED_S, cut_out, extend_watched, overlap, parse_watched, watched_json

PERIOD_S = 15.0 * MINUTE_S
BEGIN_S = 1.75e9


def watched(*at_h: float) -> list[tuple[float, float]]:
    found: tuple[TimeRange, ...] = ()
    for hour in at_h:
        found = extend_watched(found, BEGIN_S + hour * HOUR_S, PERIOD_S)
    return [tuple((edge - BEGIN_S) / HOUR_S for edge in vars(each).values()) for each in found]


def test_rounds_of_a_running_agent_are_one_time_also_over_a_short_restart() -> None:
    assert watched(0, 0.25, 0.5, 0.8) == [(0, 0.8)]


def test_an_agent_that_was_away_has_seen_two_times() -> None:
    assert watched(0, 0.25, 3, 3.25) == [(0, 0.25), (3, 3.25)]


def test_a_clock_that_goes_back_begins_anew() -> None:
    assert watched(5, 5.25, 2, 2.25) == [(2, 2.25)]


def test_times_that_no_replay_needs_are_left_out() -> None:
    assert watched(0, 0.25, 2 * KEEP_WATCHED_S / HOUR_S) == [(2 * KEEP_WATCHED_S / HOUR_S,) * 2]


def test_times_survive_a_restart_and_another_version() -> None:
    times = (TimeRange(BEGIN_S, BEGIN_S + 60), TimeRange(BEGIN_S + 7200, BEGIN_S + 7260))
    assert parse_watched(watched_json(times)) == times
    for text in (None, "", "{", "[1, 2]", '[["a", 1]]'):
        assert parse_watched(text) == ()


def test_less_than_a_minute_of_a_day_is_no_period() -> None:
    one = TimeRange(0.0, 100.0)
    assert overlap(one, TimeRange(50.0, 105.0)) is None
    assert overlap(one, TimeRange(20.0, 300.0)) == TimeRange(20.0, 100.0)


def test_running_jobs_end_as_expected_and_waiting_ones_begin_now() -> None:
    running = a_job(1, state=JobState.RUNNING, start_s=NOW_S - 600, hosts="n[1-2]", nodes=2)
    array = a_job(2, array_id="2", tasks=3, nodes=1)
    held = a_job(3, state=JobState.HELD)
    view = SchedulerView(NOW_S, (running, array, held), (), ())
    first, *tasks = jobs_not_ended(view, {"1": JobDraw(300.0, "")}, {"1": 3600, "2": 60})
    assert (first.started_unix_s, first.ended_unix_s) == (NOW_S - 600, NOW_S + 3000)
    assert first.energy_j == pytest.approx(300.0 * 2 * 3600)
    assert [(task.started_unix_s, task.ended_unix_s, task.energy_j) for task in tasks] == [
        (NOW_S, NOW_S + 60, None)
    ] * 3


def test_the_order_saves_nothing_on_days_on_which_a_trial_has_it_off() -> None:
    hours = [
        TimeRange(*(hour * 3600.0 for hour in edges)) for edges in ((0, 24), (12, 24), (30, 36), (-5, 1), (2, 2.5))
    ]
    day, evening, tomorrow, night, soon = hours
    assert cut_out(day, [evening]) == [TimeRange(0.0, evening.from_unix_s)]
    assert cut_out(day, [day, tomorrow]) == []
    assert cut_out(day, [night, soon, tomorrow]) == [
        TimeRange(night.until_unix_s, soon.from_unix_s),
        TimeRange(soon.until_unix_s, day.until_unix_s),
    ]
    assert cut_out(day, []) == [day]
