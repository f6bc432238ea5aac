"""Closes a node to jobs before an admin's order to sleep while no agent runs, by the same step as the agent."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from offpeak.door.effect import Refusal
from offpeak.door.journal import Intent
from offpeak.errors import OffpeakError, SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.orders import NodeChange
from offpeak.plugin.scheduler.node import OFFPEAK, Node
from offpeak.plugin.scheduler.port import Scheduler, in_use
from offpeak.power.check.standby import OrderRefused
from offpeak.power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.node_record import DesiredState, NodeRecord, is_goal
from offpeak.power.lifecycle.sweep import poll_once
from offpeak.power.live.observe import ADMIN_KNOWS_S
from offpeak.power.live.steps import choose_change_for_admin
from offpeak.services.agent.node_memory import read_last_sleep_orders
from offpeak.services.agent.site_context import open_scheduler_door, parse_modes
from offpeak.settings.agent import AgentSettings

STATE_FOLLOWS_S = 5.0
"""The longest time until a scheduler shows that a node is closed, or that its last job has ended."""
POLL_S = 1.0
MAY_STILL_SLEEP = "it may still follow an order to sleep"


class JobThere(OffpeakError):
    """The node is closed to jobs, and a job still runs there."""


@dataclass(frozen=True)
class NodeCloser:
    """Closes nodes and opens them in the scheduler, through a door with the rules of the agent."""

    inventory: Inventory
    settings: AgentSettings
    ledger: Ledger
    wire: Transport
    scheduler: Scheduler

    async def close_first(
        self, machine: InventoryNode, desired: DesiredState, send: Callable[[], Awaitable[NodeRecord]]
    ) -> tuple[NodeRecord, str]:
        """Close the node, call `send`, which orders it to sleep, and return its result and a note about the scheduler.

        Raises OrderRefused if a rule refuses to close the node. Raises JobThere while a job runs there; the node stays
        closed. If no order was sent, the node is opened again.
        """
        name = machine.node
        if not await self._is_open(name):
            # The node is closed and free already, or the door reports the problem.
            return await send(), ""
        (polled,) = (await poll_once((machine,), {name: NodeRecord(name)}, self.wire)).values()
        node = await self._node(name)
        if node is None or choose_change_for_admin(node, replace(polled, desired=desired)) is not NodeChange.CLOSE:
            return await send(), ""
        orders, before = self._orders(node), self._sleep_order(name)
        why = f"{OFFPEAK}: {desired.by} has ordered {desired.order}"
        _check(await orders.change_node(name, NodeChange.CLOSE, why=why, by=desired.by))
        try:
            last_s = time.monotonic() + STATE_FOLLOWS_S
            while use := await asyncio.to_thread(in_use, self.scheduler, name):
                if time.monotonic() > last_s:
                    hint = f"order it again when the job has ended; `offpeak nodes {name} wake` opens it to jobs"
                    raise JobThere(
                        f"{name}: {use}; nothing was sent to it, and it is closed to new jobs now", hint=hint
                    )
                await asyncio.sleep(POLL_S)
            record = await send()
        except JobThere:
            raise
        except BaseException as problem:
            if left := await self._open_again(orders, name, desired, before):
                raise OffpeakError(f"{name}: {str(problem) or 'interrupted'}; {left}") from problem
            raise
        if not is_goal(desired.order, record.observed.state):
            return record, await self._open_again(orders, name, desired, before)
        return record, f"closed to jobs; `offpeak nodes {name} wake` opens it again, and so does an agent"

    async def open_if_ours(self, name: str, by: str, *, was_up: bool) -> str:
        """Open a node that is up and that offpeak has closed; return a note about it, "" if offpeak had not closed it.

        A node that `was_up` all the time may still follow an order to sleep, and stays closed.
        """
        try:
            node = await self._node(name)
            if node is None or not node.closed_by_us:
                return ""
            if was_up and self._sleep_order(name):
                return f"{MAY_STILL_SLEEP}, and stays closed to jobs: order this again ten minutes after that order"
            why = f"{OFFPEAK}: {by} has ordered on"
            _check(await self._orders(node).change_node(name, NodeChange.OPEN, why=why, by=by))
        except OffpeakError as problem:
            return f"whether it is open to jobs is not known: {problem}"
        return "open to jobs again"

    async def _is_open(self, name: str) -> bool:
        """Return whether the scheduler may give the node a job, or runs one there."""
        try:
            return bool(await asyncio.to_thread(in_use, self.scheduler, name))
        except SchedulerError:
            return False

    async def _node(self, name: str) -> Node | None:
        view = await asyncio.to_thread(self.scheduler.view)
        return next((node for node in view.nodes if node.name == name), None)

    def _sleep_order(self, name: str) -> Intent | None:
        """Return the order to sleep that was sent so recently that the admin may not know of it."""
        return read_last_sleep_orders(self.ledger, self.wire.clock(), within_s=ADMIN_KNOWS_S).get(name)

    async def _open_again(
        self, orders: SchedulerOrders, name: str, desired: DesiredState, before: Intent | None
    ) -> str:
        """Open the node, and return "", or why it stays closed: a node that may follow a newer order gets no job."""
        undo = f"`offpeak nodes {name} wake` opens it"
        try:
            if self._sleep_order(name) not in (None, before):
                return f"{MAY_STILL_SLEEP}, and stays closed to jobs: {undo} when it is up ten minutes later"
            why = f"{OFFPEAK}: {desired.order} was not sent"
            answer = await orders.change_node(name, NodeChange.OPEN, why=why, by=desired.by)
        except OffpeakError as problem:
            return f"it stays closed to jobs ({problem}): {undo}"
        return "" if answer.done else f"it stays closed to jobs ({answer.answer.message}): {undo}"

    def _orders(self, node: Node) -> SchedulerOrders:
        chosen = self.inventory.chosen(expand(self.settings.nodes)) if self.settings.nodes else ()
        mode = parse_modes(self.settings).of(node.partitions)
        nodes = frozenset(machine.node for machine in chosen)
        return open_scheduler_door(self.scheduler, self.ledger, lambda _: mode, nodes=nodes, clock=self.wire.clock)


def _check(answer: SchedulerOrderResult) -> None:
    if isinstance(answer.answer, Refusal):
        raise OrderRefused(f"{answer.answer.message} (rule {answer.answer.rule})", hint=answer.answer.hint)
    if not answer.done:
        raise SchedulerError(answer.answer.message)
