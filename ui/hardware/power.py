"""What `offpeak power` prints: the readings of all power meters, as tables or as JSON. Counters are read twice."""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import typer

from offpeak.display import energy_text, percent_text, power_text
from offpeak.errors import BadInventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.model.constants import J_PER_KWH
from offpeak.power.check.findings import failed_finding, group_findings
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.kernel import HeadNodeLoad, read_head_node_load
from offpeak.power.meters.port import MeterResult, Reading, read_meters
from offpeak.power.meters.registry import site_meters
from offpeak.settings.table import Settings
from offpeak.text import counted
from offpeak.ui.terminal import TextTable, plain_console, print_table, text_table

OUTLETS, BY_BMC = "at its outlets", "by its BMC"
COLUMN_OF_WAY = {"snmp": OUTLETS, "dcmi": BY_BMC, "redfish": BY_BMC, "rapl": "its processors", "slurm": "by Slurm"}
"""The column of each way of reading nodes. Single sensors of a node are left out, because they do not add up."""


def print_power(taken: Sequence[MeterResult], here: HeadNodeLoad | None, *, now_unix_s: float) -> None:
    """Print the power of each PDU and node with its age, and the problems, equal ones in one line."""
    console = plain_console()
    readings = [reading for result in taken for reading in result.readings]
    for table in (pdu_table(readings, now_unix_s), node_table(readings, now_unix_s)):
        if table.row_count:
            print_table(table)
            console.print()
    lines = []
    for place in dict.fromkeys(COLUMN_OF_WAY.values()):
        ways = [way for way in COLUMN_OF_WAY if COLUMN_OF_WAY[way] == place]
        nodes = node_readings(reading for result in taken for reading in result.readings if reading.way in ways)
        known = [total_w([part for way in parts.values() for part in way]) for parts in nodes.values()]
        silent = (
            {result.meter for result in taken if result.error and result.way in ways} if place != OUTLETS else set()
        )
        if nodes or silent:
            drawn = [value for value in known if value is not None]
            of = counted(len(nodes) + len(silent), "node")
            lines.append(f"{place}: {power_text(sum(drawn))}, {len(drawn)} of {of}")
    if here:
        temperature = "" if here.temperature_c is None else f", {here.temperature_c:.0f} degrees C"
        busy, used = percent_text(here.cpu_percent), percent_text(here.memory_percent)
        lines.append(f"this machine: processors {busy}, memory {used} in use{temperature}")
    found = [failed_finding(result.way, result.meter, result.error) for result in taken if result.error]
    for finding in group_findings(found):
        lines.append(f"- {fold(finding.subjects)} ({finding.part}): {finding.message}\n  hint: {finding.hint}")
    for line in lines:
        console.print(line)


def pdu_table(readings: Iterable[Reading], now_unix_s: float) -> TextTable:
    """Return a table of the parts of PDUs that are not the outlet of a node."""
    rows = []
    for reading in readings:
        if reading.way == "snmp" and reading.node is None and not reading.part.startswith("outlet"):
            counter = "" if reading.energy_j is None else energy_text(reading.energy_j / J_PER_KWH)
            drawn, age = power_text(reading.power_w), _age(reading, now_unix_s)
            rows.append((reading.meter, reading.part, drawn, counter, age, reading.why))
    return text_table(("PDU", "part", "draws", "counter", "age", ""), rows, texts=(0, 1, 5))


def node_table(readings: Sequence[Reading], now_unix_s: float) -> TextTable:
    """Return a table with a row for each node and a column for each kind of meter."""
    by_node, rows = node_readings(readings), []
    columns = list(dict.fromkeys(COLUMN_OF_WAY[way] for ways in by_node.values() for way in ways))
    for node, ways in by_node.items():
        drawn = dict.fromkeys(columns, "")
        for way, parts in ways.items():
            drawn[COLUMN_OF_WAY[way]] = power_text(total_w(parts))
        every = [part for parts in ways.values() for part in parts]
        notes = dict.fromkeys(reading.why for reading in every if reading.why)
        age = max((_age(reading, now_unix_s) for reading in every), key=len)
        rows.append((node, *drawn.values(), age, "; ".join(notes)))
    return text_table(("node", *columns, "age", ""), rows, texts=(0, len(columns) + 2))


def node_readings(readings: Iterable[Reading]) -> Mapping[str, Mapping[str, Sequence[Reading]]]:
    """Return the readings of nodes, by node and by way."""
    by_node: dict[str, dict[str, list[Reading]]] = {}
    for reading in readings:
        if reading.node is not None and reading.way in COLUMN_OF_WAY:
            by_node.setdefault(reading.node, {}).setdefault(reading.way, []).append(reading)
    return by_node


def total_w(parts: Iterable[Reading]) -> float | None:
    """Return the sum over the parts of a node, None if any of them has no value."""
    power_w = [part.power_w for part in parts]
    return None if None in power_w else sum(value for value in power_w if value is not None)


def _age(reading: Reading, now_unix_s: float) -> str:
    return f"{max(0.0, now_unix_s - reading.at_unix_s):.0f} s"


COUNTER_WAYS = ("rapl", "ssh")
"""Meters that count energy: power needs two readings."""

COUNTER_PAUSE_S = 1.0
MAX_ROUND_S = 60.0


def print_readings(settings: Settings, nodes: str | None, *, as_json: bool) -> None:
    """Print the current power; raise BadInput for nodes that are not in the inventory."""
    taken = asyncio.run(_read_all(settings, nodes))
    here = None if nodes else asyncio.run(read_head_node_load())
    if as_json:
        readings = [asdict(reading) for result in taken for reading in result.readings]
        problems = [
            {"meter": result.meter, "way": result.way, "said": str(result.error), "hint": result.error.hint}
            for result in taken
            if result.error
        ]
        answer = {"readings": readings, "troubles": problems} | ({"head_node": asdict(here)} if here else {})
        typer.echo(json.dumps(answer, indent=2))
    else:
        print_power(taken, here, now_unix_s=time.time())
    if not any(result.readings for result in taken):
        raise typer.Exit(1)


def select_nodes(taken: Sequence[MeterResult], nodes: str | None) -> tuple[MeterResult, ...]:
    """Return the results without the readings of other nodes."""
    if nodes is None:
        return tuple(taken)
    wanted = set(expand(nodes))
    return tuple(
        MeterResult(result.meter, result.way, tuple(of for of in result.readings if of.node in wanted), result.error)
        for result in taken
    )


async def _read_all(settings: Settings, nodes: str | None) -> tuple[MeterResult, ...]:
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    inventory = read_inventory(settings.hardware.inventory)
    meters = site_meters(settings, inventory, nodes, wire)
    if not meters:
        hint = "docs/reference/inventory.md shows how BMCs and PDUs are written"
        raise BadInventory(f"{inventory.path}: nothing there measures power", hint=hint)
    try:
        first = await read_meters(meters, timeout_s=MAX_ROUND_S)
        if not any(result.way in COUNTER_WAYS for result in first):
            return select_nodes(first, nodes)
        await asyncio.sleep(COUNTER_PAUSE_S)
        counters = [meter for meter in meters if meter.way in COUNTER_WAYS]
        again = {(meter.meter, meter.way): meter for meter in await read_meters(counters, timeout_s=MAX_ROUND_S)}
        return select_nodes([again.get((result.meter, result.way), result) for result in first], nodes)
    finally:
        await asyncio.gather(*(meter.close() for meter in meters))
        await wire.close()
