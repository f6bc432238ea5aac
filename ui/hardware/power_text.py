"""Readings of power meters on a terminal: a line a PDU, a line a node, and what was wrong."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from offpeak.machines.node_sets import fold
from offpeak.text import counted
from power.check.finding import alike, failed
from power.meters.head_node import HeadNode
from power.meters.port import Reading
from power.meters.reconcile import Between
from power.meters.taken import Taken
from ui.figures_text import NOT_WRAPPED
from ui.watts_text import power_text

OUTLETS, BMC = "at its outlets", "by its BMC"
WAYS = {"snmp": OUTLETS, "dcmi": BMC, "redfish": BMC, "rapl": "its processors", "slurm": "by Slurm"}
"""The columns of the nodes, by the ways of reading that are in them. Single sensors of a node do not add up."""

RIGHT = ("draws", "counter", "age", "between", "share", *WAYS.values())


def print_power(taken: Sequence[Taken], here: HeadNode | None, *, now_unix_s: float) -> None:
    """Print what every PDU and node draws, with its age, and the troubles with like ones in one line."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    readings = [reading for each in taken for reading in each.readings]
    for table in (pdu_table(readings, now_unix_s), node_table(readings, now_unix_s)):
        if table.row_count:
            console.print(table)
            console.print()
    for line in (*summary(taken), *([load_line(here)] if here else []), *trouble_lines(taken)):
        console.print(line)


def pdu_table(readings: Iterable[Reading], now_unix_s: float) -> Table:
    """Return a row for each part of a PDU that is no node's outlet."""
    table = _table("PDU", "part", "draws", "counter", "age", "")
    for each in readings:
        if each.way == "snmp" and each.node is None and not each.part.startswith("outlet"):
            counter = "" if each.energy_j is None else f"{each.energy_j / 3.6e6:,.1f} kWh"
            table.add_row(each.meter, each.part, power_text(each.power_w), counter, _age(each, now_unix_s), each.why)
    return table


def node_table(readings: Sequence[Reading], now_unix_s: float) -> Table:
    """Return a row for each node, a column for each way in which nodes were measured."""
    by_node = nodes_of(readings)
    columns = list(dict.fromkeys(WAYS[way] for ways in by_node.values() for way in ways))
    table = _table("node", *columns, "age", "")
    for node, ways in by_node.items():
        drawn = dict.fromkeys(columns, "")
        for way, parts in ways.items():
            drawn[WAYS[way]] = power_text(total_w(parts))
        every = [each for parts in ways.values() for each in parts]
        notes = dict.fromkeys(each.why for each in every if each.why)
        table.add_row(node, *drawn.values(), max((_age(each, now_unix_s) for each in every), key=len), "; ".join(notes))
    return table


def nodes_of(readings: Iterable[Reading]) -> Mapping[str, Mapping[str, Sequence[Reading]]]:
    """Return the readings of nodes, by node and by way."""
    by_node: dict[str, dict[str, list[Reading]]] = {}
    for each in readings:
        if each.node is not None and each.way in WAYS:
            by_node.setdefault(each.node, {}).setdefault(each.way, []).append(each)
    return by_node


def total_w(parts: Iterable[Reading]) -> float | None:
    """Return the sum over a node's parts, None where any of them has no value."""
    power_w = [each.power_w for each in parts]
    return None if None in power_w else sum(each for each in power_w if each is not None)


def summary(taken: Sequence[Taken]) -> list[str]:
    """Return a line a place: how much all nodes draw there, and of how many of them that is known."""
    lines = []
    for place in dict.fromkeys(WAYS.values()):
        ways = [way for way in WAYS if WAYS[way] == place]
        nodes = nodes_of(reading for each in taken for reading in each.readings if reading.way in ways)
        known = [total_w([part for way in parts.values() for part in way]) for parts in nodes.values()]
        silent = {each.meter for each in taken if each.trouble and each.way in ways} if place != OUTLETS else set()
        if nodes or silent:
            drawn = [each for each in known if each is not None]
            of = counted(len(nodes) + len(silent), "node")
            lines.append(f"{place}: {power_text(sum(drawn))}, {len(drawn)} of {of}")
    return lines


def load_line(here: HeadNode) -> str:
    """Return how busy this machine itself is."""
    warmth = "" if here.temperature_c is None else f", {here.temperature_c:.0f} degrees C"
    return f"this machine: processors {here.cpu_percent:.0f} %, memory {here.memory_percent:.0f} % in use{warmth}"


def trouble_lines(taken: Iterable[Taken]) -> list[str]:
    """Return a line for each kind of trouble, with all that have it."""
    found = [failed(each.way, each.meter, each.trouble) for each in taken if each.trouble]
    return [f"- {fold(each.subjects)} ({each.part}): {each.said}\n  hint: {each.hint}" for each in alike(found)]


def print_between(between: Mapping[str, Sequence[Between]]) -> None:
    """Print what every node uses between the places where it is measured, and where that cannot be right."""
    if not between:
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    table = _table("node", "from", "to", "between", "share", "")
    for node, found in between.items():
        for each in found:
            table.add_row(node, each.outer, each.inner, power_text(each.power_w), f"{each.share:.1%}", each.trouble)
    console.print()
    console.print(table)


def _age(reading: Reading, now_unix_s: float) -> str:
    return f"{max(0.0, now_unix_s - reading.at_unix_s):.0f} s"


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in RIGHT else "left")
    return table
