"""Caps at their bounds, and under any sequence of effects over any times: none is ever exceeded."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_journal import MemoryJournal

from offpeak.door.door import Door, Limit
from offpeak.door.effect import Effect, Hold, Mode, Outcome
from offpeak.door.journal import EffectHistory
from offpeak.errors import ErrorKind
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, Inventory, InventoryNode, Pdu
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeOrder
from offpeak.power.interlocks.preconditions import AvailabilityLimits, StateReading
from offpeak.power.interlocks.rate_limits import (
    PowerStep,
    find_groups,
    limit_cycles_per_day,
    limit_per_hour,
    limit_per_rack,
    limit_per_sweep,
    limit_ramps,
    limit_wakes,
    pause_after_order,
    power_step_of_class,
)

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
ON = replace(OFF, order=NodeOrder.ON)
NODES = tuple(f"n{at}" for at in range(1, 7))
BEGIN_S = 1_700_000_000.0


@dataclass
class Time:
    """A clock that begins far from zero, where an age differs from a time."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return BEGIN_S + self.now_s


def went(history: EffectHistory, *effects: Effect) -> None:
    for effect in effects:
        history.ended(history.begun(effect), Outcome("done", ""))


def off(node: str) -> Effect:
    return replace(OFF, subject=node)


def on(node: str) -> Effect:
    return replace(ON, subject=node)


def test_a_sweep_and_an_hour_have_room_for_so_many() -> None:
    time = Time()
    history = EffectHistory(time)
    for limit in (limit_per_sweep(history, 2), limit_per_hour(history, 2)):
        assert limit(OFF) is None
    went(history, off("n1"), on("n2"), off("n3"))
    for limit, rule in ((limit_per_sweep(history, 2), "per_sweep"), (limit_per_hour(history, 2), "per_hour")):
        refusal = limit(off("n4"))
        assert refusal is not None
        assert refusal.rule == rule
        assert limit(on("n4")) is None
    history.begin_sweep()
    assert limit_per_sweep(history, 2)(off("n4")) is None
    time.now_s = 3599.9
    assert limit_per_hour(history, 2)(off("n4")) is not None
    time.now_s = 3600.0
    assert limit_per_hour(history, 2)(off("n4")) is None


def test_so_many_nodes_wake_within_a_minute_and_a_sixth_of_them_at_once() -> None:
    time = Time()
    history = EffectHistory(time)
    limit = limit_wakes(history, 12)
    woken = 0
    for second in range(60):
        time.now_s = float(second)
        while limit(on(f"n{woken}")) is None:
            went(history, on(f"n{woken}"))
            woken += 1
        assert woken == 2 + 2 * (second // 10)
    refusal = limit(on("n99"))
    assert refusal is not None
    assert (refusal.rule, refusal.message) == ("wakes", "n99: 2 nodes were ordered to wake within 10 s")
    assert limit(off("n1")) is None
    assert limit_wakes(history, 6)(on("n99")) is not None


def test_a_node_goes_down_so_often_a_day() -> None:
    time = Time()
    history = EffectHistory(time)
    limit = limit_cycles_per_day(history, 2)
    went(history, OFF, ON, replace(OFF, order=NodeOrder.STANDBY), ON)
    refusal = limit(OFF)
    assert refusal is not None
    assert refusal.message == "n1: was ordered to go down 2 times within a day"
    assert limit(ON) is None
    assert limit(off("n2")) is None
    time.now_s = 86_400.0
    assert limit(OFF) is None


def test_the_same_effect_twice_is_one_too_many() -> None:
    time = Time()
    history = EffectHistory(time)
    limit = pause_after_order(history)
    assert limit(OFF) is None
    went(history, ON)
    refusal = limit(OFF)
    assert refusal is not None
    assert refusal.message == "n1: was ordered on less than 30 s ago"
    assert (limit(ON), limit(off("n2"))) == (None, None)
    time.now_s = 30.0
    assert limit(OFF) is None


SITE = Inventory(
    Path("inventory.toml"),
    tuple(InventoryNode(node, Hardware("compute"), rack="A" if node in NODES[:3] else None) for node in NODES),
    (Pdu("pdu1", "h", "apc", Credential("pdu"), outlets=(("1", "n3"), ("2", "n4"))),),
)


def test_racks_and_pdus_get_few_orders_a_minute() -> None:
    assert find_groups(SITE)["n3"] == {"rack A", "PDU pdu1"}
    time = Time()
    history = EffectHistory(time)
    limit = limit_per_rack(history, find_groups(SITE), 2)
    went(history, on("n1"), off("n2"))
    refusal = limit(on("n3"))
    assert refusal is not None
    assert refusal.message == "n3: 2 nodes of rack A got orders within a minute"
    assert (limit(on("n4")), limit(on("n5")), limit(on("elsewhere"))) == (None, None, None)
    time.now_s = 60.0
    assert limit(on("n3")) is None


SWINGS = {"n1": PowerStep(300, 100), "n2": PowerStep(300, 100), "n3": PowerStep(200, 100)}


def test_the_draw_rises_and_falls_by_no_more() -> None:
    time = Time()
    history = EffectHistory(time)
    limit = limit_ramps(history, SWINGS.get, sleep_w=200, wake_w=500)
    went(history, on("n1"))
    assert limit(on("n3")) is None
    refusal = limit(on("n2"))
    assert refusal is not None
    assert refusal.message == "n2: the draw would rise by more than 500 W within a minute"
    assert (refusal.error_kind, refusal.hint.startswith("offpeak tries again later")) == ("", True)
    went(history, off("n1"), off("n2"))
    assert limit(off("n3")) is not None
    time.now_s = 60.0
    assert (limit(on("n2")), limit(off("n3"))) == (None, None)


def test_a_node_of_which_nobody_knows_the_draw_waits_where_the_draw_is_bound() -> None:
    limit = limit_ramps(EffectHistory(), SWINGS.get, sleep_w=200, wake_w=None)
    refusal = limit(off("n9"))
    assert refusal is not None
    assert (refusal.rule, refusal.hint) == ("sleep_ramp", "add node_class to its [hardware]")
    assert limit(on("n9")) is None


def test_a_node_that_is_too_large_for_the_bound_is_reported() -> None:
    refusal = limit_ramps(EffectHistory(), SWINGS.get, sleep_w=None, wake_w=250)(on("n1"))
    assert refusal is not None
    assert refusal.hint.startswith("one such node alone: raise wake_ramp")
    assert refusal.error_kind is ErrorKind.BAD_SETTING
    assert limit_ramps(EffectHistory(), SWINGS.get, sleep_w=None, wake_w=300)(on("n1")) is None


def test_a_class_tells_what_waking_one_draws() -> None:
    server = bundled_node_class("server")
    swing = power_step_of_class(server)
    assert swing.fall_w == server.idle_w
    assert swing.rise_w >= server.idle_w


class Seen:
    """Nodes as they are seen, and who holds them."""

    def __init__(self, **states: str) -> None:
        self.sightings = {node: StateReading(state, 1000.0) for node, state in states.items()}
        self.holds: dict[str, Hold] = {}
        self.enough = AvailabilityLimits(tuple(states), self.sightings.get, self.holds.get, lambda: 1000.0, 60.0)


def test_so_many_stay_on() -> None:
    seen, time = Seen(n1="on", n2="on", n3="on", n4="off", n5="booting", n6="unknown"), Time()
    history = EffectHistory(time)
    limit = seen.enough.min_on(history, 2)
    assert limit(off("n1")) is None
    seen.holds["n2"] = Hold("ada", "")
    refusal = limit(off("n1"))
    assert refusal is not None
    assert refusal.message == "n1: 1 nodes would be left on, 2 must be"
    assert limit(on("n4")) is None
    seen.holds.clear()
    seen.sightings["n2"] = StateReading("on", 900.0)
    assert limit(off("n1")) is not None
    seen.sightings["n2"] = StateReading("on", 1000.0)
    # It is still seen on, but was told to go down.
    went(history, off("n3"))
    assert limit(off("n1")) is not None
    went(history, on("n3"))
    assert limit(off("n1")) is None
    went(history, off("n3"))
    assert limit(off("n1")) is not None
    time.now_s = 3600.0
    assert limit(off("n1")) is None
    assert Seen().enough.min_on(history, 0)(OFF) is None


def test_no_node_sleeps_while_too_many_are_unknown() -> None:
    seen = Seen(n1="on", n2="on", n3="on", n4="unknown")
    limit = seen.enough.not_too_many_unknown(25)
    assert limit(off("n1")) is None
    del seen.sightings["n3"]
    refusal = limit(off("n1"))
    assert refusal is not None
    assert refusal.message == "n1: the state of 2 of 4 nodes is not known"
    assert limit(on("n1")) is None


@dataclass
class World:
    """A door with every cap on, nodes that do what they are told after a while, and clocks that may be set."""

    steady: Time = field(default_factory=Time)
    wall: Time = field(default_factory=lambda: Time(1e9))
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    sent: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the program, anew."""
        self.history = EffectHistory.of(self.journal, self.wall(), self.steady)
        limits: list[tuple[str, Limit]] = [
            ("sweep", limit_per_sweep(self.history, 3)),
            ("hour", limit_per_hour(self.history, 4)),
            ("cycles", limit_cycles_per_day(self.history, 2)),
            ("just", pause_after_order(self.history)),
            ("rack", limit_per_rack(self.history, find_groups(SITE), 2)),
            ("wakes", limit_wakes(self.history, 9)),
            ("ramp", limit_ramps(self.history, lambda _: PowerStep(300, 100), sleep_w=250, wake_w=1300)),
        ]
        self.door = Door(
            lambda _: Mode.ACTIVE,
            journal=self.journal,
            clock=self.wall,
            limits=limits,
            history=self.history,
            patience_s=5,
        )

    async def order(self, effect: Effect) -> None:
        async def act() -> str:
            self.sent.append((self.steady(), effect.subject, effect.order))
            await asyncio.sleep(0)
            return ""

        await self.door.let_through(effect, act)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("orders"), st.lists(st.tuples(st.sampled_from(NODES), st.booleans()), max_size=8)),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 29.0, 31.0, 59.0, 61.0, 1800.0, 40_000.0])),
        st.tuples(st.just("set_back"), st.sampled_from([1.0, 3600.0, 100_000.0])),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_no_cap_is_ever_exceeded(steps: list[tuple[str, object]]) -> None:
    world = World()

    async def run() -> None:
        for kind, what in steps:
            if kind == "orders":
                effects = [on(node) if up else off(node) for node, up in what]  # type: ignore[attr-defined]
                await asyncio.gather(*map(world.order, effects))
            elif kind == "wait":
                world.steady.now_s += what  # type: ignore[operator]
                world.wall.now_s += what  # type: ignore[operator]
            elif kind == "set_back":
                world.wall.now_s -= what  # type: ignore[operator]
            else:
                world.start()

    asyncio.run(run())
    downs = [(at_s, node) for at_s, node, order in world.sent if order != "on"]
    _at_most(4, downs, 3600)
    _at_most(2, downs, 60)
    ups = [each for each in world.sent if each[2] == "on"]
    _at_most(4, ups, 60)
    _at_most(2, ups, 10)
    for node in NODES:
        _at_most(2, [each for each in downs if each[1] == node], 86_400)
    for group in ("rack A", "PDU pdu1"):
        _at_most(2, [each for each in world.sent if group in find_groups(SITE)[each[1]]], 60)


def _at_most(most: int, events: list[tuple[float, ...]] | list[tuple[float, str]], window_s: float) -> None:  # type: ignore[type-arg]
    for first in events:
        assert sum(first[0] <= event[0] < first[0] + window_s for event in events) <= most


def test_a_restart_widens_no_bound() -> None:
    world = World()
    asyncio.run(world.order(off("n1")))
    asyncio.run(world.order(off("n4")))
    world.start()
    asyncio.run(world.order(off("n5")))
    assert [node for _, node, _ in world.sent] == ["n1", "n4"]


@pytest.mark.parametrize("back_s", [0.0, 3600.0, 1e6])
def test_a_clock_set_back_widens_no_bound(back_s: float) -> None:
    world = World()
    for node in ("n1", "n4"):
        asyncio.run(world.order(off(node)))
    world.wall.now_s -= back_s
    asyncio.run(world.order(off("n5")))
    world.start()
    asyncio.run(world.order(off("n6")))
    assert len(world.sent) == 2
