"""Rules that look something up: whose node it is, who holds it, what it was last seen to be."""

from dataclasses import replace

import pytest

from offpeak.door.effect import Effect, Hold, Refusal
from offpeak.model.orders import NodeOrder, parse_order
from offpeak.power.interlocks.preconditions import (
    StateReading,
    check_state,
    refuse_held,
    require_fresh_state,
    require_opt_in,
)

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
ORDERS = ("on", "standby", "soft_off", "hard_off")


@pytest.mark.parametrize("order", ORDERS)
def test_a_node_that_nobody_named_is_not_touched(order: str) -> None:
    limit = require_opt_in({"n1"})
    assert limit(replace(OFF, order=parse_order(order))) is None
    refusal = limit(replace(OFF, subject="n2", order=parse_order(order), by="admin ada"))
    assert refusal == Refusal("opted_in", "n2: is not managed by offpeak", "add it to nodes below [agent]")


@pytest.mark.parametrize("order", ORDERS)
def test_a_hold_wins_over_everybody_but_its_owner(order: str) -> None:
    now = [100.0]
    limit = refuse_held({"n1": Hold("ada", "new memory", 200.0)}.get, lambda: now[0])
    effect = replace(OFF, order=parse_order(order))
    refusal = limit(effect)
    assert refusal == Refusal("held", "n1: ada holds it: new memory", "ask ada, then: offpeak nodes n1 release")
    assert limit(replace(effect, by="admin bob")) is not None
    assert limit(replace(effect, by="ada")) is not None
    assert limit(replace(effect, by="admin ada")) is None
    assert limit(replace(effect, subject="n2")) is None
    now[0] = 200.0
    assert limit(effect) is None


def test_a_hold_without_an_end_has_none() -> None:
    assert refuse_held({"n1": Hold("ada", "")}.get, lambda: 1e12)(OFF) is not None


SENSIBLE = {
    ("on", "off"),
    ("on", "standby"),
    ("on", "going down"),
    ("on", "booting"),
    ("standby", "on"),
    ("soft_off", "on"),
    ("hard_off", "on"),
    ("hard_off", "booting"),
    ("hard_off", "going down"),
}


@pytest.mark.parametrize("state", ["on", "booting", "going down", "standby", "off", "unknown", "?"])
@pytest.mark.parametrize("order", [*ORDERS, "?"])
def test_an_order_must_make_sense_from_where_the_node_is(order: str, state: str) -> None:
    refusal = check_state(replace(OFF, order=parse_order(order)), StateReading(state, 100.0), 160.0, 60.0)
    assert (refusal is None) == ((order, state) in SENSIBLE)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (None, "n1: its state is not known"),
        (StateReading("unknown", 1000.0), "n1: its state is not known"),
        (StateReading("on", 939.9), "n1: its state was read 60 s ago"),
        (StateReading("off", 939.9), "n1: its state was read 60 s ago"),
        (StateReading("on", 4600.0), "n1: its state was read later than the clock says now"),
    ],
)
def test_unknown_or_stale_state_is_never_acted_on(order: str, reading: StateReading | None, message: str) -> None:
    limit = require_fresh_state({"n1": reading}.get if reading else {}.get, lambda: 1000.0, 60.0)
    refusal = limit(replace(OFF, order=parse_order(order), by="admin ada"))
    assert refusal is not None
    assert (refusal.rule, refusal.message) == ("observed_fresh", message)
