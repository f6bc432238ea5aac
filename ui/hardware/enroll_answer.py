"""What `offpeak enroll` does: takes nodes over, asks their BMCs, tests their standby, and writes the inventory."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import typer

from offpeak.errors import BadInput, BadInventory
from offpeak.files import check_writable, read_bytes
from offpeak.machines.enrolment import ImportedNode, add_machines, netbox_nodes, racksdb_nodes, write_enrolments
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.settings.table import Settings
from offpeak.text import counted
from power.check.finding import alike, failed
from power.drivers.wire import Wire
from power.enrol import Probed, probe_all
from ui.hardware.standby_trial import all_stand_by


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    nodes: str | None
    replace: bool
    standby_test: bool
    from_racksdb: Path | None
    from_netbox: Path | None


def answer(settings: Settings, request: Request) -> None:
    """Enrol the nodes and say what came of it; exit 1 if a node could not be enrolled."""
    path, timeout_s = settings.hardware.inventory, settings.hardware.timeout_s
    check_writable(path, example="inventory.toml")
    if request.standby_test and not request.nodes:
        raise BadInput("--standby-test: name the nodes", hint="offpeak enroll n001 --standby-test; drain them first")
    for export, nodes_of in ((request.from_racksdb, racksdb_nodes), (request.from_netbox, netbox_nodes)):
        if export is not None:
            _take_over(path, export, nodes_of)
    inventory = read_inventory(path)
    machines = _with_bmc(inventory, request.nodes)
    probed = asyncio.run(
        probe_all(machines, Wire(timeout_s=timeout_s), date=date.today().isoformat(), replace=request.replace)
    )
    write_enrolments(path, {each.node: each.enrolled for each in probed if each.enrolled and not each.same})
    print_enrolled(probed)
    tested = not request.standby_test or all_stand_by(settings, request.nodes or "")
    if not tested or any(each.trouble for each in probed):
        raise typer.Exit(1)


def _take_over(path: Path, export: Path, nodes_of: Callable[[bytes, Path], tuple[ImportedNode, ...]]) -> None:
    found = nodes_of(read_bytes(export, BadInventory), export)
    there = {each.node for each in read_inventory(path).machines} if path.exists() else set()
    new = [each for each in found if each.node not in there]
    if new:
        add_machines(path, new)
    typer.echo(f"{export}: {counted(len(found), 'node')}, {len(new)} of them new in {path}")
    without = [each.node for each in new if each.bmc is None]
    if without:
        typer.echo(f"  hint: nobody said where the BMCs of {fold(without)} are: add bmc = to their [[machines]]")


def _with_bmc(inventory: Inventory, nodes: str | None) -> tuple[InventoryNode, ...]:
    if nodes is not None:
        return inventory.chosen(expand(nodes))
    machines = tuple(each for each in inventory.machines if each.bmc and each.hardware.driver)
    if not machines:
        hint = 'give their [hardware] a driver and a credential, and their [[machines]] bmc = "10.1.0.[1-64]"'
        raise BadInventory(f"{inventory.path}: no node has a BMC that could be asked", hint=hint)
    return machines


def print_enrolled(probed: Sequence[Probed]) -> None:
    """Print who was enrolled, who was already, and who was not and why."""
    for same, word in ((False, "enrolled"), (True, "known already")):
        by_capabilities: dict[tuple[str, ...], list[str]] = {}
        for each in probed:
            if each.enrolled and each.same == same:
                by_capabilities.setdefault(each.enrolled.capabilities, []).append(each.node)
        for capabilities, nodes in by_capabilities.items():
            typer.echo(f"{word}: {fold(nodes)} ({', '.join(capabilities)})")
    found = [failed("bmc", each.node, each.trouble) for each in probed if each.trouble]
    for trouble in alike(found):
        typer.echo(f"not enrolled: {fold(trouble.subjects)}: {trouble.said}")
        if trouble.hint:
            typer.echo(f"  hint: {trouble.hint}")
