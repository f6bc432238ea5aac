"""An admin's order to one node: how long it goes on while the BMC does not answer."""

import asyncio
import random
from collections.abc import Callable

import pytest
from model_room import HARDWARE, ModelNode, model_lookout

from offpeak.door.effect import Effect, Outcome
from offpeak.model.orders import NodeOrder
from offpeak.power.lifecycle.admin_order import drive_node_to
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import DesiredState, Instant, NodeRecord
from offpeak.power.lifecycle.sweep import SweepContext


@pytest.mark.parametrize(("silent_polls", "polls", "ordered"), [(0, 2, ["hard_off"]), (2, 4, ["hard_off"]), (3, 3, [])])
def test_an_order_ends_after_the_third_poll_without_a_state(silent_polls: int, polls: int, ordered: list[str]) -> None:
    node, at_s, sent = ModelNode("n1", faults={"dead"} if silent_polls else set()), [0.0], list[str]()

    async def door(effect: Effect, before_sending: Callable[[], None]) -> Outcome:
        before_sending()
        sent.append(effect.order)
        node.reported(NodeOrder(effect.order), way=effect.way)
        return Outcome("done", "")

    async def sleep(seconds: float) -> None:
        at_s[0] += seconds
        node.advance(at_s[0])
        if at_s[0] == silent_polls * seconds:
            node.faults.clear()

    def now() -> Instant:
        return Instant(at_s[0], at_s[0])

    context = SweepContext(
        model_lookout({"n1": node}), door, NodeContext(HARDWARE, random.Random(1)), now, 5.0, lambda _: None
    )
    desired = DesiredState(NodeOrder.HARD_OFF, "admin jo", 0.0, "test")
    record = asyncio.run(drive_node_to(context, NodeRecord("n1"), desired, poll_s=2.0, sleep=sleep))
    assert (str(record.observed.state), sent) == ("off" if ordered else "unknown", ordered)
    assert at_s[0] == 2.0 * (polls - 1)
