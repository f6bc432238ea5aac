"""The door: every effect is in the journal, and none bypasses the door."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from memory_journal import MemoryJournal

from offpeak.door.door import Act, Door, Rule
from offpeak.door.effect import SCHEDULER, Effect, Mode, Outcome, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.errors import AccessRefused, CannotWrite, NoAnswer
from offpeak.model.orders import NodeOrder

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle for an hour", (("watts", 210.0),))
ON = replace(OFF, order=NodeOrder.ON)
NO = Refusal("test", "no")


class Device:
    """An act that counts its calls, waits and fails as configured."""

    def __init__(self, *, error: BaseException | None = None, takes_s: float = 0.0) -> None:
        self.sent, self.error, self.takes_s = 0, error, takes_s

    async def act(self) -> str:
        self.sent += 1
        await asyncio.sleep(self.takes_s)
        if self.error:
            raise self.error
        return "accepted"


def door(mode: Mode = Mode.ACTIVE, **parts: object) -> Door:
    return Door(lambda _: mode, **({"journal": MemoryJournal(), "clock": lambda: 1000.0} | parts))  # type: ignore[arg-type]


def through(door: Door, effect: Effect, act: Act) -> Outcome | Refusal:
    return asyncio.run(door.let_through(effect, act))


def answers(answer: Refusal | None) -> Rule:
    async def rule(_effect: Effect) -> Refusal | None:
        return answer

    return rule


def test_effect_is_recorded_before_and_after() -> None:
    journal, device = MemoryJournal(), Device()

    async def act() -> str:
        assert [intent.effect for intent in journal.unfinished()] == [OFF]
        return await device.act()

    assert through(door(journal=journal), OFF, act) == Outcome("done", "accepted")
    (done,) = journal.recent(0)
    assert (done.intent.effect, done.intent.at_unix_s, done.outcome) == (OFF, 1000.0, Outcome("done", "accepted"))
    assert (device.sent, journal.unfinished(), journal.refusals) == (1, (), [])


def test_the_first_rule_that_refuses_is_written_and_nothing_is_done() -> None:
    journal, device = MemoryJournal(), Device()
    rules = [("a", answers(None)), ("b", answers(NO)), ("c", answers(replace(NO, message="other")))]
    assert through(door(journal=journal, rules=rules), OFF, device.act) == NO
    assert (device.sent, journal.refusals, journal.recent(0)) == (0, [(OFF, NO)], ())


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_only_an_active_door_is_open_to_the_agent(mode: Mode) -> None:
    device = Device()
    refusal = through(door(mode), OFF, device.act)
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, device.sent) == ("mode", 0)
    assert 'mode = "active"' in refusal.hint


def test_advise_is_open_to_an_admin_and_shadow_to_nobody() -> None:
    device, by_hand = Device(), replace(OFF, by="admin ada")
    refusal = through(door(Mode.SHADOW), by_hand, device.act)
    assert refusal == Refusal(
        "mode",
        "n1: soft_off is only recorded in mode shadow",
        'set mode = "advise" below [agent], and what an admin orders is done',
    )
    assert device.sent == 0
    assert through(door(Mode.ADVISE), by_hand, device.act) == Outcome("done", "accepted")


def test_a_shadow_record_says_which_other_rule_would_have_refused() -> None:
    refusal = through(door(Mode.SHADOW, rules=[("b", answers(NO))]), OFF, Device().act)
    assert refusal == NO


def test_a_rule_that_cannot_answer_refuses() -> None:
    async def fails(_effect: Effect) -> None:
        raise NoAnswer("bmc1: silent", hint="look")

    async def is_broken(_effect: Effect) -> None:
        raise KeyError("n1")

    async def is_slow(_effect: Effect) -> None:
        await asyncio.sleep(3600)

    device = Device()

    def refusal(rule: Callable[[Effect], Awaitable[None]], patience_s: float = 300.0) -> Outcome | Refusal:
        return through(door(rules=[("asks", rule)], patience_s=patience_s), OFF, device.act)

    assert refusal(fails) == Refusal("asks", "n1: cannot tell: bmc1: silent", "look", "NoAnswer")
    again = "offpeak tries again later"
    assert refusal(is_broken) == Refusal("asks", "n1: cannot tell: KeyError: 'n1'", again, "KeyError")
    late = Refusal("asks", "n1: cannot tell: TimeoutError: took too long", again, "TimeoutError")
    assert refusal(is_slow, 0.05) == late
    assert device.sent == 0


def test_a_limit_that_is_broken_refuses() -> None:
    def is_broken(_effect: Effect) -> None:
        raise ZeroDivisionError

    device = Device()
    refusal = through(door(limits=[("counts", is_broken)]), OFF, device.act)
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, device.sent) == ("counts", 0)


def test_limits_hold_for_effects_that_come_at_the_same_time() -> None:
    history, device = EffectHistory(), Device(takes_s=0.01)

    async def looks(_effect: Effect) -> None:
        await asyncio.sleep(0.01)

    def at_most_three(_effect: Effect) -> Refusal | None:
        return NO if len(list(history.within(60))) >= 3 else None

    one = door(rules=[("looks", looks)], limits=[("three", at_most_three)], history=history)

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*(one.let_through(replace(OFF, subject=f"n{at}"), device.act) for at in range(9)))

    answers = asyncio.run(all_at_once())
    assert [isinstance(answer, Outcome) for answer in answers].count(True) == device.sent == 3


def test_one_node_has_one_effect_at_a_time() -> None:
    journal, running = MemoryJournal(), []
    one = door(journal=journal)

    async def act() -> str:
        running.append(len(journal.unfinished()))
        await asyncio.sleep(0.01)
        return ""

    async def both() -> None:
        await asyncio.gather(one.let_through(OFF, act), one.let_through(ON, act))
        meeting = asyncio.Barrier(2)

        async def meet() -> str:
            await asyncio.wait_for(meeting.wait(), 300)
            return ""

        await asyncio.gather(one.let_through(OFF, meet), one.let_through(replace(ON, subject="n2"), meet))

    asyncio.run(both())
    assert running == [1, 1]


class SlowJournal(MemoryJournal):
    """Writes an intent once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.may_write = threading.Event(), threading.Event()

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        """Wait, then write it."""
        self.writes.set()
        assert self.may_write.wait(300)
        return super().write_intent(effect, at_unix_s)


async def slow_intent(
    one: Door, journal: SlowJournal, device: Device, meanwhile: Callable[["asyncio.Task[object]"], object]
) -> object:
    """Return the answer to an order; `meanwhile` is called while its intent is written."""
    task: asyncio.Task[object] = asyncio.create_task(one.let_through(OFF, device.act))
    await asyncio.to_thread(journal.writes.wait, 300)
    meanwhile(task)
    await asyncio.sleep(0)
    assert device.sent == 0
    journal.may_write.set()
    return await task


def test_a_slow_journal_keeps_only_its_own_effect_waiting() -> None:
    journal, device, turns = SlowJournal(), Device(), []
    answer = asyncio.run(slow_intent(door(journal=journal), journal, device, turns.append))
    assert (answer, len(turns), device.sent) == (Outcome("done", "accepted"), 1, 1)


def test_a_limit_counts_effects_whose_intents_are_being_written() -> None:
    history, journal, device = EffectHistory(), SlowJournal(), Device()

    def at_most_one(_effect: Effect) -> Refusal | None:
        return NO if len(list(history.within(60))) >= 1 else None

    one = door(journal=journal, limits=[("one", at_most_one)], history=history)

    async def both() -> tuple[object, object]:
        others: list[asyncio.Task[object]] = []

        def other(_task: "asyncio.Task[object]") -> None:
            others.append(asyncio.create_task(one.let_through(replace(OFF, subject="n2"), device.act)))

        return await slow_intent(one, journal, device, other), await others[0]

    assert asyncio.run(both()) == (Outcome("done", "accepted"), NO)
    assert device.sent == 1


def test_what_an_admin_decides_while_the_intent_is_written_counts() -> None:
    journal, device, held = SlowJournal(), Device(), []
    one = door(journal=journal, limits=[("held", lambda _effect: NO if held else None)])
    assert asyncio.run(slow_intent(one, journal, device, held.append)) == NO
    (done,) = journal.recent(0)
    assert done.outcome is not None
    assert (done.outcome.result, device.sent, list(one.history.within(60))) == ("refused", 0, [])


def test_cancelled_while_the_intent_is_written_nothing_was_sent() -> None:
    journal, device = SlowJournal(), Device()
    one = door(journal=journal)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(slow_intent(one, journal, device, lambda task: task.cancel()))
    (done,) = journal.recent(0)
    assert done.outcome is not None
    assert (done.outcome.result, device.sent, list(one.history.within(60))) == ("refused", 0, [])


def test_a_device_that_fails_is_an_outcome() -> None:
    device, journal = Device(error=AccessRefused("bmc1: refuses")), MemoryJournal()
    outcome = through(door(journal=journal), OFF, device.act)
    assert outcome == Outcome("failed", "bmc1: refuses", "AccessRefused")
    assert journal.recent(0)[0].outcome == outcome


def test_unexpected_error_is_recorded_as_an_outcome() -> None:
    outcome = through(door(), OFF, Device(error=ValueError("line\n2")).act)
    assert outcome == Outcome("failed", "ValueError: line 2", "ValueError")


def test_cancelled_while_a_rule_reads_nothing_is_done() -> None:
    journal, device, asked = MemoryJournal(), Device(), []

    async def is_slow(effect: Effect) -> None:
        asked.append(effect)
        await asyncio.sleep(3600 if len(asked) == 1 else 0)

    one = door(journal=journal, rules=[("slow", is_slow)])
    assert isinstance(_again_after_cancelled(one, device, lambda: bool(asked)), Outcome)
    assert (device.sent, len(journal.recent(0))) == (1, 1)


def test_cancelled_while_it_acts_the_outcome_is_interrupted() -> None:
    journal, device = MemoryJournal(), Device(takes_s=3600)
    assert isinstance(_again_after_cancelled(door(journal=journal), device, lambda: device.sent > 0), Outcome)
    assert [done.outcome.result for done in journal.recent(0) if done.outcome] == ["interrupted", "done"]


def _again_after_cancelled(one: Door, device: Device, is_under_way: Callable[[], bool]) -> Outcome | Refusal:
    """Return what becomes of a second effect after the first was cancelled: the node's turn is free again."""

    async def run() -> Outcome | Refusal:
        task = asyncio.ensure_future(one.let_through(OFF, device.act))
        while not is_under_way():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        device.takes_s = 0.0
        return await one.let_through(ON, device.act)

    return asyncio.run(asyncio.wait_for(run(), 300))


class Full(MemoryJournal):
    """A journal on a full disk."""

    def write_intent(self, *_: object) -> int:
        raise CannotWrite("ledger: the disk is full", hint="df -h")


class FullLater(MemoryJournal):
    """A journal whose disk is full when the outcome is written."""

    def write_outcome(self, *_: object) -> None:
        raise CannotWrite("ledger: the disk is full")

    def write_refusal(self, *_: object) -> None:
        raise CannotWrite("ledger: the disk is full")


def test_no_node_is_switched_off_without_a_record() -> None:
    device = Device()
    refusal = through(door(journal=Full()), OFF, device.act)
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, device.sent) == ("ledger", 0)
    assert "the disk is full" in refusal.message


def test_a_wake_goes_on_without_a_record_and_counts() -> None:
    history, device = EffectHistory(), Device()
    outcome = through(door(journal=Full(), history=history), ON, device.act)
    assert outcome == Outcome("done", "accepted; not in the ledger: its intent could not be written")
    assert [entry.effect for entry in history.within(60)] == [ON]


def test_an_outcome_that_cannot_be_written_is_reported_and_stays_unfinished() -> None:
    journal, device = FullLater(), Device()
    outcome = through(door(journal=journal), OFF, device.act)
    assert outcome == Outcome("done", "accepted; not in the ledger: ledger: the disk is full")
    assert [intent.effect for intent in journal.unfinished()] == [OFF]
    assert through(door(Mode.SHADOW, journal=journal), OFF, device.act) != outcome


def test_a_node_that_we_put_to_sleep_is_woken_for_the_scheduler_in_every_mode() -> None:
    wake = replace(ON, by=SCHEDULER)
    journal, device = MemoryJournal(), Device()
    for mode in (Mode.SHADOW, Mode.ADVISE):
        assert through(door(mode), wake, Device().act).rule == "mode"  # type: ignore[union-attr]
    assert through(door(journal=journal), OFF, device.act).result == "done"
    for mode in (Mode.SHADOW, Mode.ADVISE):
        # A restarted program reads this from the journal, and may retry a failed order.
        history = EffectHistory.of(journal, 1e9)
        for _ in range(2):
            assert through(door(mode, journal=journal, history=history), wake, device.act).result == "done"
        assert through(door(mode, journal=journal, history=history), ON, device.act).rule == "mode"
        assert through(door(mode, journal=journal, history=history), OFF, device.act).rule == "mode"
    assert through(door(journal=journal), ON, device.act).result == "done"
    history = EffectHistory.of(journal, 1e9)
    assert through(door(Mode.SHADOW, journal=journal, history=history), wake, device.act).rule == "mode"


def test_an_order_that_was_not_sent_puts_nothing_to_sleep() -> None:
    history = EffectHistory()
    history.cancelled(history.begun(OFF))
    assert not history.was_put_to_sleep(OFF.subject)
    history.ended(history.begun(OFF), Outcome("done", ""))
    history.cancelled(history.begun(ON))
    assert history.was_put_to_sleep(OFF.subject)


def test_a_wake_that_failed_leaves_the_node_to_be_woken_for_the_scheduler_in_every_mode() -> None:
    journal, device, history = MemoryJournal(), Device(), EffectHistory()
    assert through(door(journal=journal, history=history), OFF, device.act).result == "done"
    assert through(door(journal=journal, history=history), ON, Device(error=NoAnswer("silent")).act).result == "failed"
    wake = replace(ON, by=SCHEDULER)
    for known in (history, EffectHistory.of(journal, 1e9)):
        assert through(door(Mode.SHADOW, journal=journal, history=known), wake, device.act).result == "done"
