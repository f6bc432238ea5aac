"""Tests the standby of nodes for `offpeak enroll`, one after the other, and writes what was proven."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import typer

from offpeak.door.effect import ADMIN
from offpeak.errors import OffpeakError
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand
from offpeak.process import exclusive_lock, login_name
from offpeak.settings.table import Settings
from plugin.scheduler.registry import scheduler_of
from power.drivers.port import Order
from power.drivers.wire import Wire
from power.lifecycle.node_record import StateLedger
from power.standby import StandbyProof
from power.standby_trial import Trial, try_standby
from ui.book import book_to_write


def all_stand_by(settings: Settings, nodes: str) -> bool:
    """Test the nodes one after the other, and stop at the first that does not come back; tells whether all passed.

    AlreadyRunning beside an agent: it would take the node's silence for a fault.
    """
    inventory = read_inventory(settings.hardware.inventory)
    machines = inventory.chosen(expand(nodes))
    with exclusive_lock(settings.agent.state_folder), book_to_write(settings.ledger) as book:
        return all(_stands_by(machine, inventory, settings, book) for machine in machines)


def _stands_by(machine: InventoryNode, inventory: Inventory, settings: Settings, book: StateLedger) -> bool:
    wire = Wire(timeout_s=settings.hardware.timeout_s)
    by, hold_of = f"{ADMIN}{login_name()}", book.holds(time.time()).get
    trial = Trial(inventory, wire, settings.agent, book, by, scheduler_of(settings).in_use, hold_of)
    try:
        proof = asyncio.run(_tried(machine, trial))
    except OffpeakError as problem:
        typer.echo(f"{problem}\n  hint: {problem.hint}")
        return False
    _write(settings.hardware.inventory, machine, offered=proof.offered)
    for line in proof_lines(proof):
        typer.echo(line)
    return proof.offered


async def _tried(machine: InventoryNode, trial: Trial) -> StandbyProof:
    try:
        return await try_standby(machine, trial)
    finally:
        await trial.wire.close()


def _write(path: Path, machine: InventoryNode, *, offered: bool) -> None:
    known = machine.enrolled
    if known is None:
        return
    others = tuple(each for each in known.capabilities if each != Order.STANDBY)
    now = replace(known, capabilities=(*others, str(Order.STANDBY)) if offered else others)
    if now != known:
        write_enrolments(path, {machine.node: now})


def proof_lines(proof: StandbyProof) -> list[str]:
    """Return what a test has shown, the trouble first."""
    lines = []
    if proof.trouble is not None:
        lines += [f"{proof.trouble}", f"  hint: {proof.trouble.hint}"]
    else:
        by = f"{proof.asleep_w:,.0f} W" if proof.by_power else "its power was not proven"
        lines.append(
            f"{proof.node}: slept after {proof.enter_s:.0f} s ({by}), woken by {proof.woken_by} in {proof.wake_s:.0f} s"
        )
    return [*lines, *(f"  {note}" for note in proof.notes)]
