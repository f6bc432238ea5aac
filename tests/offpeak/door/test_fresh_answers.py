"""Nothing blocks between the last answer and the command: an outdated answer is requested again."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from memory_journal import MemoryJournal

from offpeak.door.door import ATTEMPTS, FRESH_S, Confirm, Door
from offpeak.door.effect import Effect, Mode, Outcome, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.errors import NoAnswer
from offpeak.model.orders import NodeOrder

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle for an hour")
ON = replace(OFF, order=NodeOrder.ON)
BUSY = Refusal("job", "runs 7")


@dataclass
class World:
    """A clock, a scheduler whose answers take a while, a ledger whose writes do, and a device that has to be prepared.

    A job starts at `job_at_s`. `sent` has whether the node was free at each command, `acts_for_s` how long it may act.
    """

    answer_s: float = 0.1
    write_s: list[float] = field(default_factory=list)
    login_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
    job_at_s: float = 1e9
    error: Exception | None = None
    mode: Mode = Mode.ACTIVE
    now_s: float = 1000.0
    requests: int = 0
    sent: list[bool] = field(default_factory=list)
    acts_for_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal, self.history = Slow(self), EffectHistory(lambda: self.now_s)
        self.door = Door(
            lambda _: self.mode,
            journal=self.journal,
            clock=lambda: self.now_s,
            last=[("job", self.no_job)],
            limits=[("once", lambda effect: BUSY if self.history.of_subject(effect.subject) else None)],
            history=self.history,
            steady=lambda: self.now_s,
        )

    async def no_job(self, effect: Effect) -> Refusal | float:
        begun_s, self.requests = self.now_s, self.requests + 1
        busy = self.job_at_s <= begun_s and effect.takes_power_away
        self.now_s += self.answer_s
        await asyncio.sleep(0)
        return BUSY if busy else begun_s

    async def act(self, confirm: Confirm) -> str:
        self.now_s += self.login_s
        if self.error:
            raise self.error
        guard = await confirm()
        self.now_s += self.waits_s.pop(0) if self.waits_s else 0.0
        self.acts_for_s.append(guard())
        self.sent.append(self.now_s < self.job_at_s)
        return "accepted"

    def order(self, effect: Effect = OFF) -> Outcome | Refusal:
        return asyncio.run(self.door.let_through_prepared(effect, self.act))


class Slow(MemoryJournal):
    """A ledger that others keep locked for a while."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def write_intent(self, effect: Effect, at_unix_s: float) -> int:
        self._world.now_s += self._world.write_s.pop(0) if self._world.write_s else 0.0
        return super().write_intent(effect, at_unix_s)


def results(world: World) -> list[str]:
    return [done.outcome.result for done in world.journal.recent(0) if done.outcome]


def test_the_scheduler_is_queried_once_when_nothing_is_slow() -> None:
    world = World(login_s=30.0)
    assert world.order() == Outcome("done", "accepted")
    assert (world.requests, world.sent, results(world)) == (1, [True], ["done"])


def test_an_order_may_act_until_the_answer_is_too_old_or_the_lease_ends() -> None:
    world = World(answer_s=0.5, waits_s=[0.25, 0.25])
    world.order()
    world.journal.acts_for_s = lambda: 1.0  # type: ignore[method-assign]
    for effect in (replace(OFF, subject="n2"), replace(ON, subject="n3")):
        world.order(effect)
    assert world.acts_for_s == [FRESH_S - 0.75, 1.0, 1.0]


def test_a_login_that_takes_long_is_over_before_the_scheduler_is_queried() -> None:
    world = World(login_s=30.0, job_at_s=1020.0)
    assert world.order() == BUSY
    assert (world.sent, world.journal.recent(0), world.journal.refusals) == ([], (), [(OFF, BUSY)])


@pytest.mark.parametrize(("write_s", "requests"), [(FRESH_S, 1), (FRESH_S + 0.25, 2), (8.0, 2)])
def test_a_ledger_that_is_slow_makes_the_scheduler_be_queried_again(write_s: float, requests: int) -> None:
    world = World(answer_s=0.0, write_s=[write_s])
    assert world.order() == Outcome("done", "accepted")
    assert (world.requests, world.sent, results(world)) == (requests, [True], ["done"])


def test_a_job_that_starts_while_the_ledger_is_slow_keeps_its_node() -> None:
    world = World(write_s=[8.0], job_at_s=1004.0)
    assert world.order() == BUSY
    assert (world.requests, world.sent, results(world)) == (2, [], ["refused"])
    # An order that was never sent counts for no limit, also after a restart.
    assert list(world.history.within(60.0)) == []
    assert list(EffectHistory.of(world.journal, world.now_s).within(60.0)) == []


def test_a_scheduler_whose_answers_are_always_too_old_switches_nothing_off() -> None:
    world = World(answer_s=5.0)
    refusal = world.order()
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, world.requests, world.sent) == ("too_late", ATTEMPTS, [])
    assert f"no answer of the scheduler was younger than {FRESH_S:g} s" in refusal.message
    assert world.order(ON) == Outcome("done", "accepted")


def test_an_order_that_waits_for_its_turn_at_the_device_is_requested_anew() -> None:
    world = World(waits_s=[3.0])
    assert world.order() == Outcome("done", "accepted")
    assert (world.requests, world.sent, results(world)) == (2, [True], ["done"])
    world = World(waits_s=[3.0], job_at_s=1001.0)
    assert world.order() == BUSY
    assert (world.sent, results(world)) == ([], ["refused"])
    world = World(waits_s=[3.0] * ATTEMPTS)
    refusal = world.order()
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, world.sent, results(world)) == ("too_late", [], ["refused"])
    assert [done.outcome.error_kind for done in world.journal.recent(0) if done.outcome] == ["too_late"]


def test_a_device_that_cannot_be_prepared_is_a_failed_order() -> None:
    world = World(error=NoAnswer("bmc: silent"))
    assert world.order() == Outcome("failed", "bmc: silent", "NoAnswer")
    assert (world.requests, results(world), len(list(world.history.within(60.0)))) == (0, ["failed"], 1)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_no_order_is_prepared_if_the_mode_refuses(mode: Mode) -> None:
    world = World(mode=mode, error=NoAnswer("was asked"))
    refusal = world.order()
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, world.requests) == ("mode", 1)


def test_a_device_that_is_there_already_is_queried_all_the_same() -> None:
    world = World(job_at_s=0.0)

    async def nothing_to_send(_confirm: Confirm) -> str:
        return "off already"

    assert asyncio.run(world.door.let_through_prepared(OFF, nothing_to_send)) == BUSY
    world.job_at_s = 1e9
    assert asyncio.run(world.door.let_through_prepared(OFF, nothing_to_send)) == Outcome("done", "off already")


def test_cancelled_before_it_was_sent_it_was_not_sent() -> None:
    world = World(write_s=[8.0])

    async def stuck() -> None:
        ask = world.no_job

        async def no_job(effect: Effect) -> Refusal | float:
            if world.requests:
                await asyncio.sleep(3600)
            return await ask(effect)

        world.door._last = (("job", no_job),)
        task = asyncio.ensure_future(world.door.let_through_prepared(OFF, world.act))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stuck())
    assert (world.sent, results(world)) == ([], ["refused"])
