"""The times in which the agent has seen all jobs, and the jobs that have not ended."""

import asyncio
from datetime import UTC
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from queue_site import NOW_S, a_job

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.marks import read_off_blocks
from offpeak.ledger.rows import TrialBlock
from offpeak.model.constants import HOUR_S, MINUTE_S
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.services.accounts.job_draws import JobDraw
from offpeak.services.accounts.lever_site import LeverSection, jobs_not_ended
from offpeak.services.agent.accounting_loops import JobAccounts
from offpeak.services.agent.lever_loop import (
    KEEP_WATCHED_S,
    OLDEST_VIEW_S,
    WATCH_NAME,
    LeverLoop,
    WatchedTime,
    cut_out,
    extend_watched,
    overlap,
    parse_watched,
    watched_json,
)
from offpeak.services.agent.observer import Observer
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings

pytestmark = pytest.mark.quick

PERIOD_S = 15.0 * MINUTE_S
BEGIN_S = 1.75e9


def watched(*at_h: float, in_force: str = "", period_s: float = PERIOD_S) -> list[tuple[float, float]]:
    """Return the times of views in hours; the settings change with each text of one letter for each view."""
    found: tuple[WatchedTime, ...] = ()
    for number, hour in enumerate(at_h):
        at_s = BEGIN_S + hour * HOUR_S
        # Only the first view knows that the replays take long, as after a restart.
        pace_s = PERIOD_S if number else period_s
        found = extend_watched(found, WatchedTime(at_s, at_s, in_force[number : number + 1], pace_s))
    edges = ((each.from_unix_s, each.until_unix_s) for each in found)
    return [((first - BEGIN_S) / HOUR_S, (last - BEGIN_S) / HOUR_S) for first, last in edges]


def test_rounds_of_a_running_agent_are_one_time_also_over_a_short_restart() -> None:
    assert watched(0, 0.25, 0.5, 0.8) == [(0, 0.8)]


def test_an_agent_that_was_away_has_seen_two_times() -> None:
    assert watched(0, 0.25, 3, 3.25) == [(0, 0.25), (3, 3.25)]


def test_a_clock_that_goes_back_begins_anew() -> None:
    assert watched(5, 5.25, 2, 2.25) == [(2, 2.25)]


def test_a_clock_that_steps_back_a_little_does_not_split_the_day() -> None:
    assert watched(0, 0.25, 0.5, 0.4, 0.65) == [(0, 0.65)]


def test_a_restart_between_rounds_that_are_rare_does_not_split_the_day() -> None:
    assert watched(0, 2, period_s=2 * HOUR_S) == [(0, 2)]
    assert watched(0, 2) == [(0, 0), (2, 2)]


def test_times_under_other_settings_stand_alone() -> None:
    assert watched(0, 0.25, 0.5, 0.75, in_force="aabb") == [(0, 0.25), (0.5, 0.75)]


def test_times_that_no_replay_needs_are_left_out() -> None:
    assert watched(0, 0.25, 2 * KEEP_WATCHED_S / HOUR_S) == [(2 * KEEP_WATCHED_S / HOUR_S,) * 2]


def test_times_survive_a_restart_and_another_version() -> None:
    times = (WatchedTime(BEGIN_S, BEGIN_S + 60, "a", 900.0), WatchedTime(BEGIN_S + 7200, BEGIN_S + 7260))
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


def test_the_days_of_all_trials_are_read_from_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    ledger.ready()
    for trial in ("one", "two"):
        at_s = BEGIN_S + (trial == "two") * 10 * HOUR_S
        blocks = [
            TrialBlock(trial, lever, at_s + hour * HOUR_S, at_s + (hour + 1) * HOUR_S, is_on, "seed", BEGIN_S)
            for lever in ("order", "sleep")
            for hour, is_on in enumerate((False, True))
        ]
        ledger.draw_trial(blocks)
    assert ledger.close() == 0
    with open_ledger(ledger.settings.url) as connection:
        found = read_off_blocks(connection, "order", TimeRange(BEGIN_S + 60, BEGIN_S + 24 * HOUR_S))
        soon = read_off_blocks(connection, "order", TimeRange(BEGIN_S + HOUR_S, BEGIN_S + 10 * HOUR_S))
    assert [each.from_unix_s for each in found] == [BEGIN_S, BEGIN_S + 10 * HOUR_S]
    assert soon == ()


def test_the_mode_and_the_policy_of_the_queue_are_settings_of_a_time() -> None:
    def section(queue: str = "greedy", is_active: bool | None = True) -> LeverSection:
        return LeverSection(Settings(agent=AgentSettings(queue=queue)), (), lambda _: None, {}, UTC, is_active)

    texts = [section(), section("off"), section("greedy", False), section("greedy", None)]
    assert len({each.in_force for each in texts}) == len(texts)
    assert section().in_force == section().in_force


def test_an_old_view_books_nothing(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    ledger.ready()
    view = SchedulerView(int(BEGIN_S), (), (), ())
    observer = cast("Observer", SimpleNamespace(latest=view, traits=object()))
    section = LeverSection(Settings(), (), lambda _: None, {}, UTC, True)
    for late_s, seen in ((OLDEST_VIEW_S + 1, False), (OLDEST_VIEW_S, True)):
        now_s = BEGIN_S + late_s
        loop = LeverLoop(lambda: section, observer, cast("JobAccounts", None), ledger, partial(float, now_s))
        asyncio.run(loop.round())
        assert (ledger.remembered(WATCH_NAME) is not None) is seen
        # The first view is soon followed by another.
        assert loop.period_s == (PERIOD_S if seen else 60)
    assert ledger.close() == 0
