"""What is seen of a node is taken into what is known of it."""

from dataclasses import replace

import pytest
from scheduler_values import NOW, NOW_S, node_of, record_of

from offpeak.door.effect import AGENT
from offpeak.model.node_states import ACTIVE
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.power.interlocks.rate_limits import PAUSE_S
from offpeak.power.lifecycle.node_record import SentOrder
from offpeak.power.live.cluster_snapshot import NodeMemory, SleepInProgress, shift_node_memory
from offpeak.power.live.observe import observe_node, update_node_memory

pytestmark = pytest.mark.quick


def remembered(node, record, before, now_s, **given) -> NodeMemory:
    """Return the memory of a node that jobs can use."""
    observed = replace(observe_node(node, record, NOW, switchable=True), state=ACTIVE)
    return update_node_memory(observed, before, now_s, **given)


def test_a_node_that_has_just_come_up_is_not_sent_away_before_the_door_would_let_it() -> None:
    slept = NodeMemory(False, NOW_S - 3600)
    woken = remembered(node_of("n01"), record_of("n01"), slept, NOW_S)
    assert woken.rest_until_s == NOW_S + PAUSE_S
    later = remembered(node_of("n01"), record_of("n01"), woken, NOW_S + 60)
    assert later.rest_until_s == NOW_S + PAUSE_S


def test_a_node_that_is_seen_for_the_first_time_may_be_sent_away_at_once() -> None:
    assert remembered(node_of("n01"), record_of("n01"), None, NOW_S).rest_until_s == 0


def test_a_node_that_a_killed_agent_has_closed_and_ordered_to_sleep_still_leaves() -> None:
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 5, NodeState.ON, clear=False)
    closed = node_of("n01", closed=True, reason="offpeak: idle 14 min")
    assert remembered(closed, record_of("n01", sent=sent), None, NOW_S).leaving == SleepInProgress(
        NOW_S, NodeOrder.SOFT_OFF, "idle 14 min"
    )
    assert remembered(closed, record_of("n01"), None, NOW_S).leaving is None
    assert remembered(node_of("n01"), record_of("n01", sent=sent), None, NOW_S).leaving is None
    admins = replace(sent, by="admin jo")
    assert remembered(closed, record_of("n01", sent=admins), None, NOW_S).leaving is None


def test_a_node_that_somebody_opens_after_its_order_to_sleep_is_not_closed_again_at_once() -> None:
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 4000, NodeState.ON, clear=False)
    leaving = NodeMemory(True, NOW_S - 9000, leaving=SleepInProgress(NOW_S - 900, NodeOrder.SOFT_OFF, "idle"))
    closed = node_of("n01", closed=True, reason="offpeak: idle")
    after = lambda node: remembered(node, record_of("n01", sent=sent), leaving, NOW_S, hands_off_s=1800)  # noqa: E731
    assert (after(closed).leaving, after(closed).rest_until_s) == (leaving.leaving, 0)
    assert (after(node_of("n01")).leaving, after(node_of("n01")).rest_until_s) == (None, NOW_S + 1800)
    # Just after the order it was a scheduler that was killed and has lost its latest state.
    sent = replace(sent, at_unix_s=NOW_S - 20.0)
    assert (after(node_of("n01")).leaving, after(node_of("n01")).rest_until_s) == (leaving.leaving, 0)


def test_a_clock_that_is_set_changes_no_wait_whatever_the_scheduler_says() -> None:
    sleep = SleepInProgress(NOW_S - 5, NodeOrder.SOFT_OFF, "idle")
    before = NodeMemory(True, NOW_S - 60, NOW_S - 90, (NOW_S - 600,), sleep, NOW_S + 30, was_idle=True)
    back = shift_node_memory(before, -3600)
    assert shift_node_memory(back, 3600) == before
    # Its times are still those of the clock that was ahead.
    of_before = node_of("n01", boot_s=NOW_S - 90, idle_since_s=NOW_S - 60, closed=True, reason="offpeak: idle")
    assert remembered(of_before, record_of("n01"), back, NOW_S - 3600) == back
    first = remembered(of_before, record_of("n01"), None, NOW_S - 3600)
    assert (first.idle_since_s, first.woken_s) == (NOW_S - 3600, 0)
