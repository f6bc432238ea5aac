"""Rounds go on after every error; the scheduler is read once for all loops that need it at the same time."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest
from recording_scheduler import RecordingScheduler

from offpeak.errors import CannotWrite, SchedulerError
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.clock import Clock
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.services.agent.loop import DecisionFilter, Loop, LoopRunner, ProblemLog
from offpeak.services.agent.observer import Observer

pytestmark = pytest.mark.quick


class Rounds(Loop):
    """A loop whose rounds call a function."""

    def __init__(self, name: str, round_: Callable[[], Awaitable[None]], period_s: float) -> None:
        self.name, self._round, self._period_s = name, round_, period_s

    @property
    def period_s(self) -> float:
        return self._period_s

    async def round(self) -> None:
        await self._round()


def test_a_round_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    made = []

    async def round_() -> None:
        made.append(len(made))
        if len(made) == 1:
            raise CannotWrite("disk full", hint="df -h")
        if len(made) == 2:
            raise ZeroDivisionError("of ours")

    async def some() -> None:
        rounds = LoopRunner(Rounds("ledger", round_, 0.0), ProblemLog(), Clock())
        task = asyncio.create_task(rounds.run())
        while len(made) < 4:
            await asyncio.sleep(0.01)
        task.cancel()

    with caplog.at_level(logging.INFO, "offpeak"):
        asyncio.run(some())
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "round of ledger: disk full; df -h"
    assert messages[1] == "round of ledger: a fault in the program: ZeroDivisionError: of ours"
    assert "well again" in messages[2]
    assert len(messages) == 3
    fault = caplog.records[1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "INFO"]
    assert fault.exc_info is not None
    assert fault.exc_info[0] is ZeroDivisionError
    assert "Traceback" in caplog.text
    assert 'raise ZeroDivisionError("of ours")' in caplog.text


def test_a_problem_that_a_loop_reports_under_its_own_name_stays(caplog: pytest.LogCaptureFixture) -> None:
    log = ProblemLog()

    async def round_() -> None:
        log.report("prices", "no network")

    with caplog.at_level(logging.INFO, "offpeak"):
        asyncio.run(LoopRunner(Rounds("prices", round_, 0.0), log, Clock()).once())
    assert log.problems == ("prices: no network",)
    assert [record.getMessage() for record in caplog.records] == ["prices: no network"]


def test_triggered_round_does_not_wait_for_the_next_cycle() -> None:
    made = []

    async def round_() -> None:
        made.append(1)

    async def some() -> None:
        rounds = LoopRunner(Rounds("power", round_, 3600.0), ProblemLog(), Clock())
        task = asyncio.create_task(rounds.run())
        for count in (1, 2):
            while len(made) < count:
                await asyncio.sleep(0.01)
            rounds.trigger()
        task.cancel()

    asyncio.run(some())
    assert len(made) == 2


def test_no_round_begins_while_its_turn_is_held() -> None:
    made = []

    async def round_() -> None:
        made.append(1)

    async def some() -> None:
        rounds = LoopRunner(Rounds("power", round_, 0.0), ProblemLog(), Clock())
        async with rounds.turn:
            task = asyncio.create_task(rounds.run())
            await asyncio.sleep(0.1)
            assert made == []
        while not made:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(some())
    assert made


def test_concurrent_requests_share_one_reply_unless_the_state_changed() -> None:
    scheduler = RecordingScheduler()
    observer = Observer(scheduler, ProblemLog())

    async def ask() -> None:
        await asyncio.gather(*(observer.view(at_most_s=5.0) for _ in range(3)))
        await observer.view(at_most_s=0.0)
        observer.forget()
        await observer.view(at_most_s=5.0)

    asyncio.run(ask())
    assert scheduler.requested == 3


def test_an_answer_that_was_on_its_way_when_something_was_changed_is_too_old() -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Slow(RecordingScheduler):
        def view(self) -> SchedulerView:
            begun.set()
            assert may_end.wait(300)
            return super().view()

    scheduler = Slow()
    observer = Observer(scheduler, ProblemLog())

    async def ask() -> None:
        request = asyncio.create_task(observer.view(at_most_s=5.0))
        await asyncio.to_thread(begun.wait, 300)
        observer.forget()
        may_end.set()
        await request
        await observer.view(at_most_s=5.0)

    asyncio.run(ask())
    assert scheduler.requested == 2


def test_a_scheduler_that_is_away_has_no_view_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = RecordingScheduler(error=SchedulerError("slurmctld is down", hint="start it"))
    observer = Observer(scheduler, ProblemLog())

    async def ask() -> None:
        assert await observer.view(at_most_s=0.0) is None
        assert await observer.view(at_most_s=0.0) is None
        scheduler.error = None
        assert await observer.view(at_most_s=0.0) is not None

    with caplog.at_level(logging.INFO, "offpeak"):
        asyncio.run(ask())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["scheduler", "scheduler"]


def test_a_time_that_moves_a_little_and_prices_that_move_are_no_news() -> None:
    changed = DecisionFilter()
    for at in range(100):
        reason = f"not before 02:{at // 10:02}: {30 + at / 100:.2f} EUR/MWh over its run against {90 - at} now"
        inputs = (("begin_s", 7200.0 + 6 * at), ("price_per_mwh", 30 + at / 100))
        new = changed.of([DecisionRecord(30.0 * at, "job 1", "delayed", reason, inputs)], {"job 1"})
        assert len(new) == (at == 0), at
    (later,) = changed.of(
        [DecisionRecord(3000.0, "job 1", "delayed", "not before 02:15", (("begin_s", 8100.0),))], {"job 1"}
    )
    assert changed.latest["job 1"] == later
    (gone,) = changed.of(
        [DecisionRecord(3030.0, "job 1", "released", "it may be kept back until 03:00 only")], {"job 1"}
    )
    assert changed.latest["job 1"] == gone


def test_several_decisions_of_one_job_in_each_cycle_are_news_once() -> None:
    changed = DecisionFilter()
    both = [
        DecisionRecord(1.0, "job 1", "released", "cheap"),
        DecisionRecord(1.0, "job 1", "moved back", "behind 2", (("beside", "2"),)),
    ]
    assert changed.of(both, {"job 1"}) == tuple(both)
    assert changed.of(both, {"job 1"}) == ()


def test_repeated_plan_is_recorded_once_an_hour() -> None:
    changed, news = DecisionFilter(again_after_s=3600.0), []
    for at_s in range(0, 7200, 30):
        start = () if at_s % 60 else (("planned_start_s", 50_000.0 + 40.0 * at_s),)
        news += changed.of([DecisionRecord(float(at_s), "job 1", "planned anew", f"to {at_s}", start)], {"job 1"})
    assert [each.at_unix_s for each in news] == [0.0, 3600.0]


def test_the_same_decision_is_news_once() -> None:
    changed = DecisionFilter()
    first = DecisionRecord(1.0, "job 1", "moved back", "behind 2: on-peak; no job is put before it after 10:00")
    again = DecisionRecord(2.0, "job 1", "moved back", "behind 2: on-peak; no job is put before it after 10:01")
    other = DecisionRecord(3.0, "job 1", "moved forward", "before 2: off-peak")
    assert changed.of([first], {"job 1"}) == (first,)
    assert changed.of([again], {"job 1"}) == ()
    assert changed.latest["job 1"] == first
    assert changed.of([other], {"job 1"}) == (other,)
    assert changed.of([], set()) == ()
    assert changed.latest == {}
