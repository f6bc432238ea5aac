"""What `offpeak nodes` answers: every BMC asked once, beside it what the book says."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import typer

from offpeak.door.effect import Hold
from offpeak.errors import BadInventory, OffpeakError
from offpeak.ledger.rows import NodeStateRecord
from offpeak.machines.inventory import InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.settings.table import Settings
from power.agent.ask_agent import clock_of_agent
from power.drivers.wire import Wire
from power.lifecycle.node_record import NodeRecord, NodeState, restore_record
from power.lifecycle.sweep import poll_once
from power.meters.port import Meter
from power.meters.registry import bmc_meter
from power.meters.taken import take
from ui.book import book_says
from ui.nodes.nodes_text import NodeRow, print_nodes_text

LONGEST_S = 60.0


def print_nodes(settings: Settings, nodes: str | None, *, each: bool, as_json: bool) -> None:
    """Print a line a node, or one for all that are alike; BadInput for nodes that the inventory does not have."""
    inventory = read_inventory(settings.hardware.inventory)
    machines = inventory.chosen(expand(nodes)) if nodes else inventory.machines
    if not machines:
        raise BadInventory(f"{inventory.path}: names no node", hint="docs/reference/inventory.md shows how")
    rows = rows_of(settings, machines)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_nodes_text(rows, each=each, now_unix_s=clock_of_agent(settings.agent.socket))


def rows_of(settings: Settings, machines: Sequence[InventoryNode]) -> list[NodeRow]:
    """Return what the nodes are now, beside what the book says."""
    recorded, holds = book_says(settings.ledger)
    lives = {each.node: restore_record(each.node, recorded.get(each.node), holds.get(each.node)) for each in machines}
    seen, watts = asyncio.run(_asked(settings, machines, lives))
    return [_row(seen[each.node], watts.get(each.node), recorded.get(each.node), holds) for each in machines]


def _row(life: NodeRecord, watts: float | None, recorded: NodeStateRecord | None, holds: Mapping[str, Hold]) -> NodeRow:
    state, hold = life.seen.state, holds.get(life.node)
    as_recorded = recorded is not None and recorded.observed == state
    held, why = f"held by {hold.owner}: {hold.reason}" if hold else "", recorded.why if recorded is not None else ""
    whys = [
        life.seen.trouble if state is NodeState.UNKNOWN else "",
        # The agent writes the hold down as a reason, a cycle after it began.
        held if held not in why else "",
        why,
    ]
    return NodeRow(
        life.node,
        str(state),
        watts,
        recorded.at_unix_s if recorded is not None and as_recorded else None,
        recorded.by if recorded is not None and as_recorded else "",
        recorded.desired if recorded is not None else "",
        "; ".join(each for each in whys if each),
    )


async def _asked(
    settings: Settings, machines: Sequence[InventoryNode], lives: Mapping[str, NodeRecord]
) -> tuple[Mapping[str, NodeRecord], Mapping[str, float]]:
    wire = Wire(timeout_s=settings.hardware.timeout_s)
    try:
        return await asyncio.gather(poll_once(machines, lives, wire), _watts(machines, wire))
    finally:
        await wire.close()


async def _watts(machines: Sequence[InventoryNode], wire: Wire) -> dict[str, float]:
    taken = await take([meter for each in machines if (meter := _meter(each, wire))], timeout_s=LONGEST_S)
    readings = (reading for each in taken for reading in each.readings)
    return {each.node: each.power_w for each in readings if each.node is not None and each.power_w is not None}


def _meter(machine: InventoryNode, wire: Wire) -> Meter | None:
    try:
        return bmc_meter(machine, wire)
    except OffpeakError:
        # What is wrong with its BMC is said beside its state.
        return None
