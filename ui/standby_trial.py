"""Tests the standby of nodes for `offpeak enroll`, one after the other, and writes what was proven."""

import asyncio
from dataclasses import replace
from pathlib import Path

import typer

from offpeak.errors import OffpeakError
from offpeak.machines.inventory import Machine
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.inventory_text import write_enrolled
from offpeak.machines.node_sets import expand
from power.drivers.port import Order
from power.drivers.wire import Wire
from power.standby import StandbyProof
from power.standby_trial import try_standby


def all_stand_by(path: Path, nodes: str, *, timeout_s: float) -> bool:
    """Test the nodes one after the other, and stop at the first that does not come back; tells whether all passed."""
    for machine in read_inventory(path).chosen(expand(nodes)):
        try:
            proof = asyncio.run(_tried(machine, timeout_s))
        except OffpeakError as problem:
            typer.echo(f"{problem}\n  hint: {problem.hint}")
            return False
        _write(path, machine, offered=proof.offered)
        for line in proof_lines(proof):
            typer.echo(line)
        if not proof.offered:
            return False
    return True


async def _tried(machine: Machine, timeout_s: float) -> StandbyProof:
    wire = Wire(timeout_s=timeout_s)
    try:
        return await try_standby(machine, wire)
    finally:
        await wire.close()


def _write(path: Path, machine: Machine, *, offered: bool) -> None:
    known = machine.enrolled
    if known is None:
        return
    others = tuple(each for each in known.capabilities if each != Order.STANDBY)
    now = replace(known, capabilities=(*others, str(Order.STANDBY)) if offered else others)
    if now != known:
        write_enrolled(path, {machine.node: now})


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
