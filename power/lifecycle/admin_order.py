"""An order by an admin: drives one node to a state, by the agent's rounds, through the door with all its rules."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.port import FindUses
from offpeak.power.door.node_orders import InterlockContext, make_node_orders
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_context import NodeContext, RetryPolicy, make_retry_policy
from offpeak.power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    NodeRecord,
    StateLedger,
    is_goal,
    make_state_row,
    restore_record,
)
from offpeak.power.lifecycle.sweep import SweepContext, make_poller, poll_once, read_clocks, sweep
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.settings.agent import AgentSettings

NO_RETRY = RetryPolicy(tries=1)
"""Each step is tried once: the admin sees the result."""

MOST_BLIND_POLLS = 3
"""A BMC may miss a request. After so many polls in a row without a state the order ends."""

POLL_S = 2.0
LONGEST_SWEEP_S = 60.0


async def drive_node_to(
    sweep_context: SweepContext,
    record: NodeRecord,
    desired: DesiredState,
    *,
    poll_s: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NodeRecord:
    """Return the record of the node as soon as it is as desired, refused, at fault, or silent."""
    sweep_context = replace(sweep_context, context=replace(sweep_context.context, retry=NO_RETRY))
    node_context = replace(sweep_context.context, hardware=sweep_context.poller.machines[record.node].hardware)
    records = NodeRecords(
        {record.node: apply_event(record, DesiredStateChange(desired), sweep_context.clock(), node_context)}
    )
    unseen = 0
    while True:
        records = await sweep(sweep_context, records, {})
        now = records.nodes[record.node]
        unseen = unseen + 1 if now.observed.state is NodeState.UNKNOWN else 0
        if (
            _has_ended(now, desired)
            or unseen >= MOST_BLIND_POLLS
            or not (now.attempts.pending or now.attempts.step or unseen)
        ):
            return now
        await sleep(poll_s)


def _has_ended(record: NodeRecord, desired: DesiredState) -> bool:
    return (
        is_goal(desired.order, record.observed.state) or record.fault is not None or record.attempts.refusal is not None
    )


@dataclass(frozen=True)
class AdminOrder:
    """The context of an admin's order: machines, settings of the door, ledger, and the query of the scheduler."""

    inventory: Inventory
    settings: AgentSettings
    book: StateLedger
    wire: Transport
    find_uses: FindUses
    poll_s: float = POLL_S


async def execute_order(
    admin_order: AdminOrder, machine: InventoryNode, order: NodeOrder, *, by: str, reason: str
) -> NodeRecord:
    """Return the node's record as soon as the order is followed, refused or given up, and write it to the ledger."""
    wire, book = admin_order.wire, admin_order.book
    recorded, holds = book.latest(), book.holds(wire.clock())
    ways = DriverPool({each.node: each for each in admin_order.inventory.machines}, wire)
    observed = dict(await _poll_other_nodes(admin_order, order))

    def reading_of(node: str) -> StateReading | None:
        record = observed.get(node)
        return None if record is None else StateReading(record.observed.state, record.observed.at_unix_s)

    def publish(records: NodeRecords) -> None:
        observed.update(records.nodes)

    site = InterlockContext(admin_order.inventory, ways, reading_of, wire.clock, holds.get, admin_order.find_uses)
    door = make_node_orders(admin_order.settings, site, book).order
    context = NodeContext(machine.hardware, random.Random(), retry=make_retry_policy(admin_order.settings))
    sweep_context = SweepContext(
        make_poller((machine,), wire), door, context, lambda: read_clocks(wire), LONGEST_SWEEP_S, publish
    )
    before = restore_record(machine.node, recorded.get(machine.node), holds.get(machine.node))
    try:
        record = await drive_node_to(
            sweep_context, before, DesiredState(order, by, wire.clock(), reason), poll_s=admin_order.poll_s
        )
    finally:
        await ways.close()
    # A refused order is over: the node has no desired state any more.
    kept = replace(record, desired=None) if record.attempts.refusal else record
    book.write_states([make_state_row(kept, read_clocks(wire))])
    return record


async def _poll_other_nodes(admin_order: AdminOrder, order: NodeOrder) -> dict[str, NodeRecord]:
    """Poll all opted-in nodes and return their records: before one goes down, the door counts those that are on."""
    nodes = expand(admin_order.settings.nodes) if admin_order.settings.nodes and order is not NodeOrder.ON else ()
    if not nodes:
        return {}
    machines = admin_order.inventory.chosen(nodes)
    return dict(await poll_once(machines, {node: NodeRecord(node) for node in nodes}, admin_order.wire))
