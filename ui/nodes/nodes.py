"""Print `offpeak nodes`: the state that each BMC reports, with its record in the ledger; equal nodes share a line.

Node types and partitions are those that the agent has read from the scheduler. If no agent answers, the command reads
the scheduler itself. Nodes of several types get a table of types first.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import typer

from offpeak.display import duration_text, power_text
from offpeak.door.effect import Hold
from offpeak.errors import BadInput, BadInventory, OffpeakError
from offpeak.files import is_there
from offpeak.ledger import journal as held
from offpeak.ledger.database import open_ledger, sqlite_file
from offpeak.ledger.records import latest_states
from offpeak.ledger.rows import NodeStateRecord
from offpeak.machines.inventory import InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold, fold_names
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node_types import UNKNOWN_PLACE, NodePlace, find_node_places
from offpeak.plugin.scheduler.registry import scheduler_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.node_record import NodeRecord, restore_record
from offpeak.power.lifecycle.sweep import poll_once
from offpeak.power.meters.port import Meter, read_meters
from offpeak.power.meters.registry import bmc_meter
from offpeak.services.agent.status import fetch_clock, fetch_snapshot
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.text import counted, did_you_mean
from offpeak.ui.terminal import plain_console, print_table, text_table

COLUMNS = ("nodes", "type", "partitions", "state", "desired", "draws", "since", "by", "why")
FROM_SCHEDULER = COLUMNS[1:3]
NUMBERS = frozenset({"draws", "since"})
SPARE = ("by", "partitions", "type")

BMC = re.compile(r"\(BMC [^)]*\)")


@dataclass(frozen=True)
class NodeChoice:
    """The nodes to show: a node set, a part of the text of their type, and a partition; None for all."""

    nodes: str | None = None
    node_type: str | None = None
    partition: str | None = None


@dataclass(frozen=True)
class NodeRow:
    """A row: a node's observed state and its record, None unknown; `node_type` and `partitions` as in NodePlace."""

    node: str
    state: str
    watts: float | None
    since_unix_s: float | None
    by: str
    desired: str
    why: str
    node_type: str = ""
    partitions: str = ""


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
    """Print the table of types if there are several, the table of nodes, and the number of nodes by state."""
    console, by_type = plain_console(), dict[str, list[NodeRow]]()
    for row in rows:
        by_type.setdefault(row.node_type, []).append(row)
    if len(by_type) > 1:
        by_type = dict(sorted(by_type.items(), key=lambda item: -len(item[1])))
        counts_of = {kind: Counter(row.state for row in members) for kind, members in by_type.items()}
        shown = [str(state) for state in NodeState if any(count[state] for count in counts_of.values())]
        types = []
        for kind, members in by_type.items():
            partitions = fold_names(name for row in members for name in row.partitions.split(",") if name)
            by_state = (f"{counts_of[kind][state]:,}" if counts_of[kind][state] else "" for state in shown)
            types.append((kind or "unknown", partitions, f"{len(members):,}", *by_state))
        print_table(text_table(("type", "partitions", "nodes", *shown), types, texts=(0, 1)))
        console.print()
        rows = rows if each else [row for members in by_type.values() for row in members]
    left_out = set() if any(row.node_type or row.partitions for row in rows) else set(FROM_SCHEDULER)
    headers, lines = [header for header in COLUMNS if header not in left_out], []
    for group in [NodeGroup((row.node,), (row,)) for row in rows] if each else group_nodes(rows):
        first = group.rows[0]
        place = () if left_out else (first.node_type, fold_names(filter(None, first.partitions.split(","))))
        power, since = power_text(group.watts), since_text(group.rows, now_unix_s)
        lines.append((fold(group.nodes), *place, first.state, first.desired, power, since, first.by, first.why))
    texts = [at for at, header in enumerate(headers) if header not in NUMBERS]
    print_table(text_table(headers, lines, texts=texts, spare=SPARE))
    console.print()
    states = sorted(row.state for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    known = [row.watts for row in rows if row.watts is not None]
    drawn = f"; {power_text(sum(known))} drawn by {len(known)} of them" if known else ""
    console.print(f"{counted(len(rows), 'node')}: {counts}{drawn}")


def group_nodes(rows: Iterable[NodeRow]) -> tuple[NodeGroup, ...]:
    """Group equal nodes, in the order of the first node of each group."""
    groups: dict[tuple[str, ...], list[NodeRow]] = {}
    for row in rows:
        # The text of a problem contains the name and the BMC of the node.
        why = BMC.sub("", row.why.replace(row.node, ""))
        groups.setdefault((row.node_type, row.partitions, row.state, row.desired, row.by, why), []).append(row)
    return tuple(NodeGroup(tuple(row.node for row in group), tuple(group)) for group in groups.values())


def since_text(rows: Iterable[NodeRow], now_unix_s: float) -> str:
    """Return the shortest and the longest time in the state; "" if unknown."""
    ages = sorted(max(0.0, now_unix_s - row.since_unix_s) for row in rows if row.since_unix_s is not None)
    texts = [duration_text(age_s) for age_s in ages]
    return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else ""


MAX_ROUND_S = 60.0


def print_nodes(settings: Settings, choice: NodeChoice, *, each: bool, as_json: bool) -> None:
    """Print one line per node or per group of equal nodes; raise BadInput for a choice of no nodes."""
    inventory = read_inventory(settings.hardware.inventory)
    machines = inventory.chosen(expand(choice.nodes)) if choice.nodes else inventory.machines
    if not machines:
        raise BadInventory(f"{inventory.path}: names no node", hint="docs/reference/inventory.md shows how")
    places = None
    if choice.node_type or choice.partition:
        places = read_node_places(settings)
        found = {machine.node: places[machine.node] for machine in machines if machine.node in places}
        if not found:
            hint = "is the agent running? `offpeak check` shows whether the scheduler answers"
            raise BadInput(
                "node types and partitions are not known: neither agent nor scheduler reports them", hint=hint
            )
        partitions = {name for place in found.values() for name in place.partitions.split(",")}
        if choice.partition and choice.partition not in partitions:
            hint = did_you_mean(choice.partition, partitions)
            raise BadInput(f"no node is in a partition {choice.partition!r}", hint=hint)
        kinds = {place.node_type for place in found.values() if place.node_type}
        wanted = (choice.node_type or "").casefold()
        if wanted and not any(wanted in kind.casefold() for kind in kinds):
            raise BadInput(f"no node has a type with {choice.node_type!r}", hint=f"types: {'; '.join(sorted(kinds))}")
        chosen = {
            name
            for name, place in found.items()
            if wanted in place.node_type.casefold()
            and (not choice.partition or choice.partition in place.partitions.split(","))
        }
        if not chosen:
            raise BadInput(f"no node of partition {choice.partition} has a type with {choice.node_type!r}")
        machines = tuple(machine for machine in machines if machine.node in chosen)
    rows = node_rows(settings, machines, places)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_nodes_text(rows, each=each, now_unix_s=fetch_clock(settings.agent.socket))


def read_node_places(settings: Settings) -> Mapping[str, NodePlace]:
    """Return the node types and partitions that the agent knows, else those of the scheduler; {} if none answers."""
    try:
        statuses = fetch_snapshot(settings.agent.socket).nodes
        if any(status.node_type or status.partitions for status in statuses):
            return {each.node: NodePlace(each.node_type, each.partitions, each.left) for each in statuses}
    except OffpeakError:
        pass
    try:
        return find_node_places(scheduler_of(settings).view().nodes)
    except OffpeakError:
        return {}


def node_rows(
    settings: Settings, machines: Sequence[InventoryNode], places: Mapping[str, NodePlace] | None = None
) -> list[NodeRow]:
    """Return the observed state of each node with its record in the ledger; without `places` they are read, too."""
    recorded, holds = read_latest_states(settings.ledger)
    records = {
        machine.node: restore_record(machine.node, recorded.get(machine.node), holds.get(machine.node))
        for machine in machines
    }
    seen, watts, found = asyncio.run(_observe_nodes(settings, machines, records, places))
    return [
        _node_row(
            seen[machine.node], watts.get(machine.node), recorded.get(machine.node), holds, found.get(machine.node)
        )
        for machine in machines
    ]


def _node_row(
    record: NodeRecord,
    watts: float | None,
    recorded: NodeStateRecord | None,
    holds: Mapping[str, Hold],
    place: NodePlace | None,
) -> NodeRow:
    state, hold, place = record.observed.state, holds.get(record.node), place or UNKNOWN_PLACE
    as_recorded = recorded is not None and recorded.observed == state
    held, why = f"held by {hold.owner}: {hold.reason}" if hold else "", recorded.why if recorded is not None else ""
    reasons = [
        place.left,
        record.observed.problem,
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
        node_type=place.node_type,
        partitions=place.partitions,
    )


async def _observe_nodes(
    settings: Settings,
    machines: Sequence[InventoryNode],
    records: Mapping[str, NodeRecord],
    places: Mapping[str, NodePlace] | None,
) -> tuple[Mapping[str, NodeRecord], Mapping[str, float], Mapping[str, NodePlace]]:
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    try:
        polled, watts = poll_once(machines, records, wire), _read_node_watts(machines, wire)
        if places is not None:
            return *await asyncio.gather(polled, watts), places
        return await asyncio.gather(polled, watts, asyncio.to_thread(read_node_places, settings))
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


def read_latest_states(settings: LedgerSettings) -> tuple[Mapping[str, NodeStateRecord], Mapping[str, Hold]]:
    """Return the last recorded state of each node, and the holds, by node; nothing if there is no ledger yet."""
    file = sqlite_file(settings.url)
    if file and not is_there(file):
        return {}, {}
    with open_ledger(settings.url) as connection:
        return latest_states(connection), held.open_holds(connection, time.time())
