"""Run `offpeak enroll`: import nodes, query their BMCs, test their standby, and write the inventory.

Standby tests run one after the other and stop at the first node that does not come back.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import typer

from offpeak.display import watts_text
from offpeak.door.effect import ADMIN
from offpeak.errors import BadInput, BadInventory, OffpeakError
from offpeak.files import check_writable, is_there, read_bytes
from offpeak.ledger.ledger import open_ledger_to_write
from offpeak.machines.enrolment import add_machines, netbox_nodes, racksdb_nodes, write_enrolments
from offpeak.machines.inventory import Inventory, InventoryNode, is_standby_proof
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.registry import scheduler_of
from offpeak.power.check.devices import EnrolmentResult, EnrolmentRules, probe_bmcs
from offpeak.power.check.findings import failed_finding, group_findings
from offpeak.power.check.pairing import pair_lines, read_firmware
from offpeak.power.check.standby import StandbyContext, StandbyTestResult, run_standby_test
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.node_record import StateLedger
from offpeak.process import exclusive_lock, login_name
from offpeak.settings.table import Settings
from offpeak.text import counted

FIRMWARE_HINT = (
    "a file of node, UUID and serial number proves them: for n in NODES; do echo $n "
    "$(ssh $n cat /sys/class/dmi/id/product_uuid /sys/class/dmi/id/product_serial); done > dmi.txt; "
    "offpeak enroll --dmi dmi.txt"
)
"""How to prove which node is behind a BMC."""


def run_standby_tests(settings: Settings, nodes: str) -> bool:
    """Test the nodes one after the other, and stop at the first that does not come back; return whether all passed.

    Raise AlreadyRunning if an agent runs, because it would treat the silence of the node as a fault.
    """
    inventory = read_inventory(settings.hardware.inventory)
    machines = inventory.chosen(expand(nodes))
    with exclusive_lock(settings.agent.state_folder), open_ledger_to_write(settings.ledger) as book:
        return all(_passes_test(machine, inventory, settings, book) for machine in machines)


def _passes_test(machine: InventoryNode, inventory: Inventory, settings: Settings, book: StateLedger) -> bool:
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    by, hold_of = f"{ADMIN}{login_name()}", book.holds(time.time()).get
    trial = StandbyContext(
        inventory=inventory,
        wire=wire,
        settings=settings.agent,
        journal=book,
        by=by,
        find_uses=scheduler_of(settings).find_uses,
        hold_of=hold_of,
    )
    try:
        result = asyncio.run(_run_test(machine, trial))
    except OffpeakError as problem:
        typer.echo(f"{problem}\n  hint: {problem.hint}")
        return False
    _write_result(settings.hardware.inventory, machine, offered=result.offered)
    if result.error is not None:
        typer.echo(f"{result.error}\n  hint: {result.error.hint}")
    else:
        power = "its power was not proven"
        if result.by_power and result.asleep_w is not None:
            power = watts_text(result.asleep_w)
        woken = f"woken by {result.woken_by} in {result.wake_s:.0f} s"
        typer.echo(f"{result.node}: slept after {result.enter_s:.0f} s ({power}), {woken}")
    for note in result.notes:
        typer.echo(f"  {note}")
    return result.offered


async def _run_test(machine: InventoryNode, trial: StandbyContext) -> StandbyTestResult:
    try:
        return await run_standby_test(machine, trial)
    finally:
        await trial.wire.close()


def _write_result(path: Path, machine: InventoryNode, *, offered: bool) -> None:
    known = machine.enrolled
    if known is None:
        return
    others = tuple(capability for capability in known.capabilities if not is_standby_proof(capability))
    method = machine.hardware.sleep_method(NodeOrder.STANDBY)
    now = replace(known, capabilities=(*others, method.capability) if method and offered else others)
    if now != known:
        write_enrolments(path, {machine.node: now})


@dataclass(frozen=True)
class EnrollRequest:
    """The options of `offpeak enroll`."""

    nodes: str | None
    replace: bool
    standby_test: bool
    from_racksdb: Path | None
    from_netbox: Path | None
    firmware: Path | None
    accept_pairs: bool = False


def enroll_nodes(settings: Settings, request: EnrollRequest) -> None:
    """Enrol the nodes and print the results; exit 1 if a node could not be enrolled."""
    path, timeout_s = settings.hardware.inventory, settings.hardware.timeout_s
    check_writable(path, example="inventory.toml")
    if request.standby_test and not request.nodes:
        raise BadInput("--standby-test: name the nodes", hint="offpeak enroll n001 --standby-test; drain them first")
    for export, nodes_of in ((request.from_racksdb, racksdb_nodes), (request.from_netbox, netbox_nodes)):
        if export is not None:
            found = nodes_of(read_bytes(export, BadInventory), export)
            there = {machine.node for machine in read_inventory(path).machines} if is_there(path) else set()
            new = [node for node in found if node.node not in there]
            if new:
                add_machines(path, new)
            typer.echo(f"{export}: {counted(len(found), 'node')}, {len(new)} of them new in {path}")
            without = [node.node for node in new if node.bmc is None]
            if without:
                hint = "are not known: add bmc = to their [[machines]]"
                typer.echo(f"  hint: the addresses of the BMCs of {fold(without)} {hint}")
    inventory = read_inventory(path)
    machines = _machines_with_bmc(inventory, request.nodes)
    rules = EnrolmentRules(
        date.today().isoformat(),
        request.replace,
        frozenset(machine.node for machine in inventory.machines),
        read_firmware(request.firmware) if request.firmware else {},
    )
    probed = asyncio.run(probe_bmcs(machines, Transport(timeout_s=timeout_s), rules))
    if unproven := [result.node for result in probed if result.enrolled and not result.same and not result.proof]:
        bmc_of = {machine.node: machine.bmc or "" for machine in machines if machine.node in unproven}
        replaced = {machine.node for machine in machines if request.replace and machine.enrolled}
        accepted = request.accept_pairs or set(unproven) <= replaced
        typer.echo(
            f"not proven to be the BMCs of these nodes: {counted(len(bmc_of), 'pair')}; nothing shows a wrong address"
        )
        for line in pair_lines(bmc_of):
            typer.echo(f"  {line}")
        typer.echo(f"  hint: {FIRMWARE_HINT}")
        if not (accepted or (sys.stdin.isatty() and typer.confirm("Are these pairs right?"))):
            probed = tuple(_refused(result) if result.node in {*unproven} - replaced else result for result in probed)
    write_enrolments(path, {result.node: result.enrolled for result in probed if result.enrolled and not result.same})
    print_enrolled(probed)
    tested = not request.standby_test or run_standby_tests(settings, request.nodes or "")
    if not tested or any(result.error for result in probed):
        raise typer.Exit(1)


def _refused(result: EnrolmentResult) -> EnrolmentResult:
    hint = "compare the pairs above with the cables; if they are right: offpeak enroll --accept-pairs"
    error = BadInventory(f"{result.node}: no proof that this BMC belongs to the node", hint=hint)
    return replace(result, enrolled=None, error=error)


def _machines_with_bmc(inventory: Inventory, nodes: str | None) -> tuple[InventoryNode, ...]:
    if nodes is not None:
        return inventory.chosen(expand(nodes))
    machines = tuple(machine for machine in inventory.machines if machine.bmc and machine.hardware.driver)
    if not machines:
        hint = 'give their [hardware] a driver and a credential, and their [[machines]] bmc = "10.1.0.[1-64]"'
        raise BadInventory(f"{inventory.path}: no node has a BMC that can be queried", hint=hint)
    return machines


def print_enrolled(probed: Sequence[EnrolmentResult]) -> None:
    """Print the nodes that were enrolled, were known, and could not be enrolled, with the reason."""
    for same, label in ((False, "enrolled"), (True, "known already")):
        by_capabilities: dict[tuple[str, ...], list[str]] = {}
        for result in probed:
            if result.enrolled and result.same == same:
                by_capabilities.setdefault(result.enrolled.capabilities, []).append(result.node)
        for capabilities, nodes in by_capabilities.items():
            typer.echo(f"{label}: {fold(nodes)} ({', '.join(capabilities)})")
    proven = [result.node for result in probed if result.enrolled and result.proof]
    if proven:
        typer.echo(f"proven by the identity that the BMC reports: {fold(proven)}")
    found = [failed_finding("bmc", result.node, result.error) for result in probed if result.error]
    for error in group_findings(found):
        typer.echo(f"not enrolled: {fold(error.subjects)}: {error.message}")
        if error.hint:
            typer.echo(f"  hint: {error.hint}")
