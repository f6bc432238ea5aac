"""Print `offpeak nodes`: the state that each BMC reports, with its record in the ledger; equal nodes share a line."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

import typer
from rich.console import Console
from rich.table import Table

from offpeak.display import NOT_WRAPPED, clock_text, power_text
from offpeak.door.effect import Hold
from offpeak.errors import BadInventory, OffpeakError
from offpeak.ledger.rows import NodeStateRecord
from offpeak.machines.inventory import InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.model.orders import NodeState
from offpeak.settings.table import Settings
from offpeak.text import counted
from power.drivers.transport import Transport
from power.lifecycle.node_record import NodeRecord, restore_record
from power.lifecycle.sweep import poll_once
from power.meters.port import Meter, read_meters
from power.meters.registry import bmc_meter
from services.agent.status import fetch_clock
from ui.node_ledger import read_latest_states

COLUMNS = ("nodes", "state", "wanted", "draws", "since", "by", "why")


@dataclass(frozen=True)
class NodeRow:
    """A row of the table: the observed state of a node, and its record in the ledger; None is unknown."""

    node: str
    state: str
    watts: float | None
    since_unix_s: float | None
    by: str
    desired: str
    why: str


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are equal in all but their power and time."""

    nodes: tuple[str, ...]
    rows: tuple[NodeRow, ...]

    @property
    def watts(self) -> float | None:
        """Return the power of all nodes, None if that of any is unknown."""
        known = [row.watts for row in self.rows]
        return None if None in known else sum(value for value in known if value is not None)


def print_nodes_text(rows: Sequence[NodeRow], *, each: bool, now_unix_s: float) -> None:
    """Print the table of nodes, and the number of nodes by state."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in COLUMNS:
        table.add_column(header, justify="right" if header in ("draws", "since") else "left")
    for group in [NodeGroup((row.node,), (row,)) for row in rows] if each else group_nodes(rows):
        first = group.rows[0]
        drawn, since = power_text(group.watts), since_text(group.rows, now_unix_s)
        cells = (fold(group.nodes), first.state, first.desired, drawn, since, first.by, first.why)
        table.add_row(*cells)
    console.print(table)
    console.print()
    console.print(nodes_summary(rows))


def group_nodes(rows: Iterable[NodeRow]) -> tuple[NodeGroup, ...]:
    """Group equal nodes, in the order of the first node of each group."""
    groups: dict[tuple[str, ...], list[NodeRow]] = {}
    for row in rows:
        # The text of a problem contains the name of the node.
        why = row.why.replace(row.node, "")
        groups.setdefault((row.state, row.desired, row.by, why), []).append(row)
    return tuple(NodeGroup(tuple(row.node for row in group), tuple(group)) for group in groups.values())


def since_text(rows: Iterable[NodeRow], now_unix_s: float) -> str:
    """Return the shortest and the longest time in the state; "" if unknown."""
    ages = sorted(max(0.0, now_unix_s - row.since_unix_s) for row in rows if row.since_unix_s is not None)
    texts = [clock_text(age_s) for age_s in ages]
    return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else ""


def nodes_summary(rows: Sequence[NodeRow]) -> str:
    """Return the number of nodes by state, and the known power."""
    states = sorted(row.state for row in rows)
    counts = ", ".join(f"{len(list(group))} {state}" for state, group in groupby(states))
    known = [row.watts for row in rows if row.watts is not None]
    drawn = f"; {power_text(sum(known))} drawn by {len(known)} of them" if known else ""
    return f"{counted(len(rows), 'node')}: {counts}{drawn}"


MAX_ROUND_S = 60.0


def print_nodes(settings: Settings, nodes: str | None, *, each: bool, as_json: bool) -> None:
    """Print one line per node or per group of equal nodes; raise BadInput for nodes that are not in the inventory."""
    inventory = read_inventory(settings.hardware.inventory)
    machines = inventory.chosen(expand(nodes)) if nodes else inventory.machines
    if not machines:
        raise BadInventory(f"{inventory.path}: names no node", hint="docs/reference/inventory.md shows how")
    rows = node_rows(settings, machines)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_nodes_text(rows, each=each, now_unix_s=fetch_clock(settings.agent.socket))


def node_rows(settings: Settings, machines: Sequence[InventoryNode]) -> list[NodeRow]:
    """Return the observed state of each node with its record in the ledger."""
    recorded, holds = read_latest_states(settings.ledger)
    records = {
        machine.node: restore_record(machine.node, recorded.get(machine.node), holds.get(machine.node))
        for machine in machines
    }
    seen, watts = asyncio.run(_poll_nodes(settings, machines, records))
    return [
        _node_row(seen[machine.node], watts.get(machine.node), recorded.get(machine.node), holds)
        for machine in machines
    ]


def _node_row(
    record: NodeRecord, watts: float | None, recorded: NodeStateRecord | None, holds: Mapping[str, Hold]
) -> NodeRow:
    state, hold = record.observed.state, holds.get(record.node)
    as_recorded = recorded is not None and recorded.observed == state
    held, why = f"held by {hold.owner}: {hold.reason}" if hold else "", recorded.why if recorded is not None else ""
    reasons = [
        record.observed.problem if state is NodeState.UNKNOWN else "",
        # The agent records the hold as a reason one cycle after it began.
        held if held not in why else "",
        why,
    ]
    return NodeRow(
        node=record.node,
        state=str(state),
        watts=watts,
        since_unix_s=recorded.at_unix_s if recorded is not None and as_recorded else None,
        by=recorded.by if recorded is not None and as_recorded else "",
        desired=recorded.desired if recorded is not None else "",
        why="; ".join(each for each in reasons if each),
    )


async def _poll_nodes(
    settings: Settings, machines: Sequence[InventoryNode], records: Mapping[str, NodeRecord]
) -> tuple[Mapping[str, NodeRecord], Mapping[str, float]]:
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    try:
        return await asyncio.gather(poll_once(machines, records, wire), _read_node_watts(machines, wire))
    finally:
        await wire.close()


async def _read_node_watts(machines: Sequence[InventoryNode], wire: Transport) -> dict[str, float]:
    taken = await read_meters(
        [meter for machine in machines if (meter := _meter_of(machine, wire))], timeout_s=MAX_ROUND_S
    )
    readings = (reading for result in taken for reading in result.readings)
    return {
        reading.node: reading.power_w
        for reading in readings
        if reading.node is not None and reading.power_w is not None
    }


def _meter_of(machine: InventoryNode, wire: Transport) -> Meter | None:
    try:
        return bmc_meter(machine, wire)
    except OffpeakError:
        # The row of the node already shows the problem of its BMC.
        return None
