"""What the scheduler is told of nodes, each through the door; what was refused is asked for again after a pause."""

import asyncio
import time
from collections.abc import Callable, Sequence

from offpeak.door.effect import Refusal
from plugin.scheduler.port import NodeChange
from power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from power.live.power_plan import SchedulerUpdate

AT_ONCE = 8
RECORDED_S = 600.0
"""A shadow mode is recorded, but not in each cycle."""
FAILED_S = 10.0
"""What the scheduler has not done it may do soon: it may have been away."""


class NodeChanges:
    """Tells; knows what was refused."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before_s: dict[tuple[str, NodeChange], float] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def tell(self, changes: Sequence[SchedulerUpdate], orders: SchedulerOrders) -> bool:
        """Tell of all that is not paused; returns whether anything was changed."""
        now_s = self._clock()
        wanted = {(told.node, told.change) for told in changes}
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if key in wanted}
        due = [told for told in changes if self._not_before_s.get((told.node, told.change), now_s) <= now_s]
        done = await asyncio.gather(*(self._tell(told, orders) for told in due))
        return any(done)

    async def _tell(self, told: SchedulerUpdate, orders: SchedulerOrders) -> bool:
        async with self._turn:
            answer = await orders.change_node(told.node, told.change, why=told.reason)
        if not answer.done:
            self._not_before_s[told.node, told.change] = self._clock() + _pause_s(answer)
        return answer.done


def _pause_s(answer: SchedulerOrderResult) -> float:
    by_mode = isinstance(answer.answer, Refusal) and answer.answer.rule == "mode"
    return RECORDED_S if by_mode else FAILED_S
