"""The updates about nodes for the scheduler, and when they are sent again."""

import asyncio

import pytest
from memory_journal import MemoryJournal
from recording_scheduler import RecordingScheduler

from offpeak.door.effect import Mode
from offpeak.model.orders import NodeChange
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.power.live.steps import SchedulerUpdate
from offpeak.services.agent.power_loop import FIRST_PAUSE_S, SHADOW_PAUSE_S, NodeChanges

pytestmark = pytest.mark.quick

UPDATES = (SchedulerUpdate("n1", NodeChange.CLOSE, "offpeak: it must sleep"),)


def times_sent(mode: Mode, seconds: float, **refuses: str) -> int:
    """Return how often the door gets the same change that is sent twice, so many seconds apart."""
    now, journal, scheduler = [0.0], MemoryJournal(), RecordingScheduler(refuses=refuses)
    door = make_scheduler_door(journal, lambda _: mode, lambda: 1000.0, nodes=["n1"], hold_of=lambda _: None)
    orders, changes = SchedulerOrders(door, scheduler), NodeChanges(lambda: now[0])
    asyncio.run(changes.request(UPDATES, orders))
    now[0] += seconds
    asyncio.run(changes.request(UPDATES, orders))
    return len(journal.refusals) + len(scheduler.reported)


def test_a_shadow_is_recorded_now_and_then() -> None:
    assert times_sent(Mode.SHADOW, SHADOW_PAUSE_S - 1) == 1
    assert times_sent(Mode.SHADOW, SHADOW_PAUSE_S) == 2


def test_a_change_without_effect_is_repeated_after_pauses_that_grow() -> None:
    """Such as POWER_DOWN where the scheduler has forgotten the node, which it accepts each time."""
    now, scheduler = [0.0], RecordingScheduler()
    door = make_scheduler_door(
        MemoryJournal(), lambda _: Mode.ACTIVE, lambda: 1000.0, nodes=["n1"], hold_of=lambda _: None
    )
    orders, changes = SchedulerOrders(door, scheduler), NodeChanges(lambda: now[0])
    for now[0] in map(float, range(0, 3600, 5)):
        asyncio.run(changes.request(UPDATES, orders))
    assert len(scheduler.reported) == 16
    asyncio.run(changes.request((), orders))
    asyncio.run(changes.request(UPDATES, orders))
    assert len(scheduler.reported) == 17


def test_a_change_that_the_scheduler_did_not_make_is_sent_again_soon() -> None:
    assert times_sent(Mode.ACTIVE, FIRST_PAUSE_S - 1, n1="slurmctld is away") == 1
    assert times_sent(Mode.ACTIVE, FIRST_PAUSE_S, n1="slurmctld is away") == 2
