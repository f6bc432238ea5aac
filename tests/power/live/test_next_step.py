"""Every combination of what the scheduler says, what the BMC says and what is wanted."""

from dataclasses import replace
from itertools import product

import pytest
from scheduler_words import NOW, NOW_S, life_of, node_of

from offpeak.door.effect import SCHEDULER, Hold
from plugin.scheduler.node import NodePower, NodeUse
from plugin.scheduler.port import NodeChange
from power.drivers.port import Order
from power.lifecycle.life import NodeState, Sent, Wish, Word
from power.live.next_step import Want, next_step
from power.live.words import word_of, words_of

OURS = {"closed": True, "reason": "offpeak: idle"}
THEIRS = {"closed": True, "reason": "new DIMM", "reason_by": "jo"}
CLOSINGS = ({}, OURS, THEIRS)
FLAGS = ("failed", "responds", "reserved", "planned")
ALL_NODES = [
    node_of(use=use, power=power, **closed, **dict(zip(FLAGS, flags, strict=True)))
    for use, power, closed, flags in product(
        NodeUse, NodePower, CLOSINGS, list(product((False, True), repeat=len(FLAGS)))
    )
]


@pytest.mark.parametrize("state", NodeState)
def test_whatever_is_said_no_step_takes_power_from_a_job_or_undoes_what_others_did(state) -> None:
    life = life_of(state=state)
    for node, want in product(ALL_NODES, Want):
        step = next_step(node, life, want, now=NOW)
        down = step.order in (Order.SOFT_OFF, Order.STANDBY)
        assert not (down and node.use is not NodeUse.FREE)
        assert not (step.change in (NodeChange.CLOSE, NodeChange.POWER_DOWN) and node.use is not NodeUse.FREE)
        assert not (step.change is NodeChange.CLOSE and (node.closed or node.reserved))
        assert not (step.change and node.closed and not node.closed_by_us)
        assert not (step.change is NodeChange.POWER_DOWN and state not in (NodeState.OFF, NodeState.STANDBY))
        assert not (down and not node.closed and state is NodeState.ON)
        if state is NodeState.UNKNOWN or node.use is NodeUse.UNKNOWN:
            assert (step.order, step.change) == (None, None)
        assert step.why


def test_words_of_all_nodes() -> None:
    for node in ALL_NODES:
        word = word_of(node)
        assert (word is None) == (node.use is NodeUse.UNKNOWN)
        assert not (word is Word.BUSY and node.use is not NodeUse.USED)
    assert words_of([node_of("a"), node_of("b", use=NodeUse.UNKNOWN)]) == {"a": Word.UP}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, Word.UP),
        (OURS, Word.DRAINED),
        ({"use": NodeUse.USED}, Word.BUSY),
        ({"use": NodeUse.USED, "power": NodePower.COMING_UP}, Word.BOOTS),
        ({"use": NodeUse.USED, "power": NodePower.DOWN}, Word.BOOTS),
        ({"power": NodePower.DOWN}, Word.DOWN),
        ({"failed": True}, Word.DOWN),
    ],
)
def test_the_word_of_a_node(given, word) -> None:
    assert word_of(node_of(**given)) is word


DOWN, ON, OFF = NodePower.DOWN, NodeState.ON, NodeState.OFF


@pytest.mark.parametrize(
    ("given", "state", "want", "order", "change"),
    [
        # To sleep, step by step.
        ({}, ON, Want.ASLEEP, None, NodeChange.CLOSE),
        (OURS, ON, Want.ASLEEP, Order.SOFT_OFF, None),
        (OURS, NodeState.GOING_DOWN, Want.ASLEEP, Order.SOFT_OFF, None),
        (OURS, OFF, Want.ASLEEP, Order.SOFT_OFF, NodeChange.POWER_DOWN),
        (OURS | {"failed": True}, OFF, Want.ASLEEP, Order.SOFT_OFF, NodeChange.POWER_DOWN),
        (OURS | {"power": NodePower.GOING_DOWN}, OFF, Want.ASLEEP, Order.SOFT_OFF, None),
        (OURS | {"power": DOWN, "failed": True}, OFF, Want.ASLEEP, Order.SOFT_OFF, NodeChange.RESUME),
        (OURS | {"power": DOWN}, OFF, Want.ASLEEP, Order.SOFT_OFF, NodeChange.OPEN),
        ({"power": DOWN}, OFF, Want.ASLEEP, Order.SOFT_OFF, None),
        # To wake.
        ({"power": DOWN}, OFF, Want.UP, Order.SOFT_OFF, NodeChange.POWER_UP),
        ({"power": NodePower.GOING_DOWN}, OFF, Want.UP, Order.SOFT_OFF, None),
        ({"power": NodePower.COMING_UP}, OFF, Want.ASLEEP, Order.ON, None),
        ({"power": DOWN, "use": NodeUse.USED}, OFF, Want.ASLEEP, Order.ON, None),
        ({}, ON, Want.UP, None, None),
        # Half-way states.
        (OURS, ON, Want.UP, None, NodeChange.OPEN),
        (OURS | {"use": NodeUse.USED}, ON, Want.ASLEEP, None, NodeChange.OPEN),
        (OURS | {"power": NodePower.COMING_UP}, OFF, Want.UP, Order.ON, NodeChange.OPEN),
        ({"power": DOWN}, ON, Want.UP, None, NodeChange.CLOSE),
        (OURS | {"power": DOWN}, ON, Want.UP, Order.SOFT_OFF, None),
        ({}, OFF, Want.UP, None, NodeChange.CLOSE),
        # Failures and others' nodes.
        ({"failed": True, "power": DOWN}, OFF, Want.UP, None, None),
        (
            {"failed": True, "power": DOWN, "reason": "offpeak: it is off"},
            OFF,
            Want.ASLEEP,
            Order.SOFT_OFF,
            NodeChange.RESUME,
        ),
        ({"failed": True, "power": DOWN}, ON, Want.UP, None, NodeChange.RESUME),
        ({"failed": True}, ON, Want.ASLEEP, None, None),
        ({"failed": True}, OFF, Want.UP, None, None),
        # A scheduler that was killed has forgotten that we closed it.
        ({"failed": True, "responds": False}, OFF, Want.UP, None, NodeChange.CLOSE),
        ({"failed": True, "responds": False}, ON, Want.UP, None, None),
        (THEIRS, ON, Want.ASLEEP, None, None),
        (THEIRS | {"power": NodePower.ASKED_UP}, OFF, Want.ASLEEP, Order.ON, None),
    ],
)
def test_the_next_step(given, state, want, order, change) -> None:
    step = next_step(node_of(**given), life_of(state=state), want, now=NOW)
    assert (step.order, step.change) == (order, change), step.why
    assert order is not Order.ON or step.by == SCHEDULER


@pytest.mark.parametrize(
    ("given", "state", "change"),
    [
        ({}, ON, NodeChange.CLOSE),
        ({"use": NodeUse.USED}, ON, NodeChange.CLOSE),
        (OURS, ON, None),
        (OURS | {"use": NodeUse.USED}, ON, None),
        (THEIRS, ON, None),
        ({"reserved": True}, ON, None),
        ({"failed": True}, ON, None),
        ({"power": DOWN}, ON, None),
        ({}, NodeState.BOOTING, None),
        # It is there: from now on it is as if we had wanted it.
        (OURS, OFF, NodeChange.POWER_DOWN),
    ],
)
def test_a_node_that_an_admin_orders_to_sleep_is_closed_and_stays_so(given, state, change) -> None:
    life = life_of(state=state, wish=Wish(Order.SOFT_OFF, "admin jo", float(NOW_S), "a quiet night"))
    step = next_step(node_of(**given), life, Want.UP, now=NOW)
    assert (step.change, step.order) == (change, Order.SOFT_OFF if state is OFF else None), step.why


def test_no_job_is_let_in_while_an_order_to_sleep_may_still_be_followed() -> None:
    sent = Sent(Order.SOFT_OFF, "offpeak", NOW.monotonic_s - 20, ON, clear=False)
    node = node_of(**OURS)
    assert next_step(node, life_of(sent=sent), Want.UP, now=NOW).change is None
    long_ago = life_of(sent=replace(sent, at_s=NOW.monotonic_s - 700))
    assert next_step(node, long_ago, Want.UP, now=NOW).change is NodeChange.OPEN


@pytest.mark.parametrize(
    ("power", "state", "change"),
    [
        (NodePower.DOWN, OFF, NodeChange.POWER_UP),
        # The boot has begun: a scheduler that waits for a fresh one would wait in vain.
        (NodePower.DOWN, NodeState.BOOTING, None),
        (NodePower.GOING_DOWN, OFF, None),
        (NodePower.UP, OFF, None),
    ],
)
def test_the_scheduler_is_told_of_a_node_that_an_admin_wakes(power, state, change) -> None:
    life = life_of(state=state, wish=Wish(Order.ON, "admin jo", float(NOW_S), "morning"))
    assert next_step(node_of(power=power), life, Want.ASLEEP, now=NOW).change is change


@pytest.mark.parametrize(
    "given",
    [
        {"hold": Hold("jo", "new DIMM")},
        {"wish": Wish(Order.ON, "admin jo", float(NOW_S), "to look at it")},
        {"hands_off_until_s": NOW.monotonic_s + 60},
    ],
)
@pytest.mark.parametrize("want", Want)
def test_who_has_a_hand_on_it_keeps_it(given, want) -> None:
    life = life_of(state=OFF, **given)
    for power in (NodePower.UP, NodePower.DOWN, NodePower.GOING_DOWN):
        step = next_step(node_of(power=power, **OURS), life, want, now=NOW)
        assert (step.order, step.change) == (None, None)


def test_a_hold_keeps_no_node_closed_for_a_sleep_that_is_called_off() -> None:
    held, sent = Hold("jo", "a benchmark"), Sent(Order.SOFT_OFF, "offpeak", NOW.monotonic_s - 60, ON, clear=False)
    for want in Want:
        step = next_step(node_of(**OURS), life_of(hold=held), want, now=NOW)
        assert (step.order, step.change) == (None, NodeChange.OPEN)
        # What it may still follow, or an admin has ordered, or others have closed, stays closed.
        ordered = Wish(Order.SOFT_OFF, "admin jo", float(NOW_S), "by hand")
        for life in (life_of(hold=held, sent=sent), life_of(hold=held, wish=ordered)):
            assert next_step(node_of(**OURS), life, want, now=NOW).change is None
        assert next_step(node_of(**THEIRS), life_of(hold=held), want, now=NOW).change is None
        assert next_step(node_of(), life_of(hold=held), want, now=NOW).change is None
