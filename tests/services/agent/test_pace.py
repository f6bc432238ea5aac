"""How often the agent reads a scheduler, by what that costs the scheduler."""

import asyncio
import time
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_scheduler import NOTHING, RecordingScheduler

from offpeak.plugin.scheduler.port import NO_LOAD, SchedulerLoad, SchedulerView
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.observer import Observer
from offpeak.services.agent.pace import LONGEST_S, MOST_FACTOR, SHARE, ReadingPace, after_failure, after_reading

pytestmark = pytest.mark.quick

CYCLE_S = 30.0


def after(
    *loads: SchedulerLoad, took_s: float = 0.1, per_s: float | None = None, every_s: float = CYCLE_S
) -> ReadingPace:
    """Return the pace after readings with these loads, one each `every_s`."""
    pace = ReadingPace()
    for number, load in enumerate(loads, 1):
        pace = after_reading(pace, load, at_s=number * every_s, took_s=took_s, per_s=per_s)
    return pace


def counted(requests: int, busy_s: float, **others: float | str) -> SchedulerLoad:
    return SchedulerLoad(0.02, 3, 0, requests, busy_s)._replace(**others)  # type: ignore[arg-type]


def test_a_quick_scheduler_is_read_once_a_cycle() -> None:
    pace = after(*(counted(9 * number, 0.05 * number) for number in range(4)))
    assert pace.period_s(CYCLE_S) == CYCLE_S
    assert pace.use(CYCLE_S).text == "18 requests a minute, 0.17 % of its time"


def test_the_agent_takes_its_share_of_a_slow_scheduler_and_no_more() -> None:
    """Seven requests of 5 s each: in its counters, or only in the latency of sdiag."""
    for load in (lambda number: counted(7 * number, 35.0 * number), lambda number: counted(7 * number, 0, latency_s=5)):
        pace = after(*map(load, range(4)), took_s=35.0, every_s=700)
        assert 35 / pace.period_s(CYCLE_S) < 0.05
        assert pace.period_s(CYCLE_S) == LONGEST_S
        assert "read every 800 s: a reading costs the scheduler 35.0 s" in pace.use(CYCLE_S).text
        # While an admin or a job waits, every other second is the scheduler's own.
        assert pace.urgent_s(5) == pytest.approx(70)


def test_squeue_that_takes_long_to_print_does_not_stretch_the_cycle_where_slurmctld_counts() -> None:
    loads = [counted(9 * number, 0.2 * number) for number in range(4)]
    assert after(*loads, took_s=4.0).period_s(CYCLE_S) == CYCLE_S
    assert after(*loads, took_s=4.0).period_s(1.0) == pytest.approx(0.2 / SHARE)


def test_what_the_daemons_of_slurm_cost_does_not_count_for_an_agent_that_runs_as_root() -> None:
    busy = [counted(900 * number, 20.0 * number, user="root") for number in range(4)]
    shared = after(*busy, took_s=1.6)
    assert shared.period_s(CYCLE_S) == pytest.approx(40)
    assert "with all programs of root" in shared.use(CYCLE_S).text
    # Without long answers a few seconds of squeue itself are nothing.
    assert after(*(counted(9 * n, 0.1 * n, user="root") for n in range(4)), took_s=4.0).period_s(CYCLE_S) == CYCLE_S


def test_one_slow_reading_changes_nothing_and_two_do() -> None:
    slow = (counted(0, 0), counted(9, 0.1), counted(18, 20.0))
    assert after(*slow).period_s(CYCLE_S) == CYCLE_S
    assert after(*slow, counted(27, 40.0)).period_s(CYCLE_S) == pytest.approx(19.9 / SHARE)
    # The first readings after a start wait for more than the scheduler.
    assert after(NO_LOAD, took_s=60.0).period_s(CYCLE_S) == CYCLE_S


def test_threads_and_messages_that_wait_stretch_the_cycle() -> None:
    assert after(counted(0, 0, threads=128)).period_s(CYCLE_S) == 4 * CYCLE_S
    assert after(counted(0, 0, backlog=300)).period_s(CYCLE_S) == 3 * CYCLE_S
    flooded = after(counted(0, 0, threads=256, backlog=100_000))
    assert flooded.period_s(CYCLE_S) == MOST_FACTOR * CYCLE_S
    assert flooded.use(CYCLE_S).text == (
        "read every 240 s: the scheduler works on 256 requests, 100000 messages to nodes wait"
    )


def test_counters_that_began_anew_are_no_requests_that_were_taken_back() -> None:
    use = after(counted(900, 9.0), counted(909, 9.1), counted(9, 0.1), counted(18, 0.2)).use(CYCLE_S)
    assert (use.requests, use.busy_s) == (27, pytest.approx(0.3))


def test_without_counters_the_commands_are_the_measure() -> None:
    """As on PBS, and on a Slurm that refuses sdiag."""
    pace = after(*4 * [NO_LOAD], took_s=3.0)
    assert pace.period_s(CYCLE_S) == pytest.approx(50)
    assert (pace.use(CYCLE_S).requests, pace.use(CYCLE_S).busy_s) == (None, pytest.approx(9))
    assert pace.use(CYCLE_S).text.startswith("at most 10 % of its time, as our commands took, read every 50 s")
    # Refused for a while only: nothing becomes 0 a minute.
    mended = after(counted(9, 0.1), NO_LOAD, counted(27, 0.3), counted(36, 0.4))
    assert mended.use(CYCLE_S).requests == 9


def test_a_limit_of_requests_is_left_to_orders() -> None:
    assert after(*2 * [NO_LOAD], per_s=2.0).period_s(5.0) == pytest.approx(16)


def test_silence_is_tried_again_at_a_distance() -> None:
    assert after_failure(ReadingPace(), took_s=60.0).period_s(CYCLE_S) == pytest.approx(240)
    assert after_failure(ReadingPace(pause_s=700.0), took_s=1.0).period_s(CYCLE_S) == pytest.approx(300)
    assert after_failure(ReadingPace(), took_s=0.1).period_s(CYCLE_S) == CYCLE_S


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(0, 1e9), st.floats(0, 60), st.integers(0, 10**6), st.booleans()),
        max_size=8,
    ),
    st.floats(0, 600),
    st.sampled_from([5.0, 30.0, 3600.0]),
)
def test_the_cycle_is_never_shorter_than_set_and_never_without_end(
    seen: list[tuple[int, float, float, int, bool]], took_s: float, cycle_s: float
) -> None:
    loads = [SchedulerLoad(late_s, busy, busy, n, s) if known else NO_LOAD for n, s, late_s, busy, known in seen]
    pace = after(*loads, took_s=took_s)
    assert cycle_s <= pace.period_s(cycle_s) <= max(cycle_s, LONGEST_S)
    use = pace.use(cycle_s)
    assert (use.requests or 0) >= 0
    assert (use.busy_s or 0.0) >= 0


@dataclass
class Slow(RecordingScheduler):
    """Takes its time for each view."""

    takes_s: float = 0.3

    def view(self) -> SchedulerView:
        time.sleep(self.takes_s)
        return super().view()


def test_who_waits_for_a_slow_reading_shares_it() -> None:
    scheduler = Slow(shows=replace(NOTHING, load=counted(1, 1.0)))
    observer = Observer(scheduler, ProblemLog())

    async def ask() -> None:
        await asyncio.gather(*(observer.view(at_most_s=0.1) for _ in range(3)))

    asyncio.run(ask())
    assert scheduler.requested == 1
    assert observer.pace.load.requests == 1
