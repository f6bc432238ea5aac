"""An order by an admin: drives one node to a state, by the agent's rounds, through the door with all its rules."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.settings.agent import AgentSettings
from power.door.node_orders import InterlockContext, make_node_orders
from power.drivers.port import Order
from power.drivers.registry import DriverPool
from power.drivers.transport import Transport
from power.interlocks.preconditions import InUse, StateReading
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_context import NodeContext, RetryPolicy, make_retry_policy
from power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    NodeRecord,
    NodeState,
    StateLedger,
    is_goal,
    make_state_row,
    restore_record,
)
from power.lifecycle.sweep import SweepContext, make_poller, poll_once, read_clocks, sweep
from power.lifecycle.transitions import apply_event

NO_RETRY = RetryPolicy(tries=1)
"""Every way is tried, and none of them a second time: the admin sees what came of it."""

MOST_BLIND_POLLS = 3
"""A BMC may miss a question; so many looks in a row that see nothing end it."""


async def drive_node_to(
    means: SweepContext,
    life: NodeRecord,
    wish: DesiredState,
    *,
    poll_s: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NodeRecord:
    """Return the life of the node when it is as wished, or refused, at fault, or not to be seen."""
    means = replace(means, terms=replace(means.terms, conduct=NO_RETRY))
    rules_of = replace(means.terms, hardware=means.lookout.machines[life.node].hardware)
    lives = NodeRecords({life.node: apply_event(life, DesiredStateChange(wish), means.clock(), rules_of)})
    unseen = 0
    while True:
        swept = await sweep(means, lives, {})
        lives, now = swept.lives, swept.lives.nodes[life.node]
        unseen = unseen + 1 if now.seen.state is NodeState.UNKNOWN else 0
        if _has_ended(now, wish) or unseen >= MOST_BLIND_POLLS or not (now.effort.course or now.effort.step or unseen):
            return now
        await sleep(poll_s)


def _has_ended(life: NodeRecord, wish: DesiredState) -> bool:
    return is_goal(wish.order, life.seen.state) or life.fault is not None or life.effort.refusal is not None


POLL_S = 2.0
LONGEST_SWEEP_S = 60.0


@dataclass(frozen=True)
class AdminOrder:
    """What an errand goes by: the machines, the door's settings, the book, and what asks the scheduler."""

    inventory: Inventory
    settings: AgentSettings
    book: StateLedger
    wire: Transport
    in_use: InUse
    poll_s: float = POLL_S


async def execute_order(
    errand: AdminOrder, machine: InventoryNode, order: Order, *, by: str, reason: str
) -> NodeRecord:
    """Return the node's life when it is where the order leads, or refused, or given up; the book has it then too."""
    wire, book = errand.wire, errand.book
    recorded, holds = book.latest(), book.holds(wire.clock())
    ways = DriverPool({each.node: each for each in errand.inventory.machines}, wire)
    seen = dict(await _poll_other_nodes(errand, order))

    def sighting_of(node: str) -> StateReading | None:
        life = seen.get(node)
        return None if life is None else StateReading(str(life.seen.state), life.seen.at_unix_s)

    def publish(lives: NodeRecords) -> None:
        seen.update(lives.nodes)

    site = InterlockContext(errand.inventory, ways, sighting_of, wire.clock, holds.get, errand.in_use)
    door = make_node_orders(errand.settings, site, book).order
    terms = NodeContext(machine.hardware, random.Random(), conduct=make_retry_policy(errand.settings))
    means = SweepContext(
        make_poller((machine,), wire), door, terms, lambda: read_clocks(wire), LONGEST_SWEEP_S, publish
    )
    before = restore_record(machine.node, recorded.get(machine.node), holds.get(machine.node))
    try:
        life = await drive_node_to(means, before, DesiredState(order, by, wire.clock(), reason), poll_s=errand.poll_s)
    finally:
        await ways.close()
    # What was refused is over: nobody goes on wanting it.
    kept = replace(life, wish=None) if life.effort.refusal else life
    book.write_states([make_state_row(kept, read_clocks(wire))])
    return life


async def _poll_other_nodes(errand: AdminOrder, order: Order) -> dict[str, NodeRecord]:
    """Return all nodes that may be touched as they are now: before one goes down, the door counts those that are on."""
    nodes = expand(errand.settings.nodes) if errand.settings.nodes and order is not Order.ON else ()
    if not nodes:
        return {}
    machines = errand.inventory.chosen(nodes)
    return dict(await poll_once(machines, {node: NodeRecord(node) for node in nodes}, errand.wire))
