"""What `offpeak node` does without ordering anything: shows a node, holds it, gives it back."""

import json
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from getpass import getuser

import typer

from offpeak.door.effect import ADMIN
from offpeak.door.hold import Hold
from offpeak.errors import BadInput
from offpeak.machines.inventory import Machine
from offpeak.machines.inventory_file import read_inventory
from offpeak.settings import Settings
from offpeak.zones import machine_zone
from power.agent.ask_agent import AgentSilent, tell_agent
from ui.book import book_to_write
from ui.nodes.hold_end import hold_end_unix_s
from ui.nodes.node_lines import node_lines
from ui.nodes.nodes_answer import rows_of


def print_node(settings: Settings, name: str, *, as_json: bool) -> None:
    """Print all that is known of the node."""
    machine = _machine(settings, name)
    (row,) = rows_of(settings, (machine,))
    if as_json:
        typer.echo(json.dumps(asdict(row), indent=2))
        return
    for line in node_lines(row, machine, now_unix_s=time.time()):
        typer.echo(line)


def hold(settings: Settings, name: str, reason: str | None, until: str | None) -> None:
    """Let nobody else switch the node; BadInput without a reason, and where somebody else holds it."""
    _machine(settings, name)
    if not reason:
        raise BadInput("a hold needs a reason", hint='such as --reason "new DIMM", for whoever finds it')
    now = datetime.now(machine_zone())
    end = None if until is None else hold_end_unix_s(until, now)
    with book_to_write(settings.ledger) as book:
        book.hold(name, Hold(getuser(), reason, end), now.timestamp())
    _tell_agent(settings, "look", name)
    typer.echo(f"{name}: held by {getuser()} {until_text(end)}")


def release(settings: Settings, name: str) -> None:
    """Give the node back, whoever held it."""
    _machine(settings, name)
    with book_to_write(settings.ledger) as book:
        found = book.release(name, f"{ADMIN}{getuser()}", time.time())
    _tell_agent(settings, "release", name)
    typer.echo(f"{name}: was not held" if found is None else f"{name}: no longer held by {found.owner}: {found.reason}")


def _tell_agent(settings: Settings, what: str, name: str) -> None:
    """Have an agent that runs look at the book at once; what nobody tells it, it sees there a cycle later."""
    with suppress(AgentSilent, BadInput):
        tell_agent(settings.agent.socket, what, name)


def until_text(end_unix_s: float | None) -> str:
    """Return when a hold ends, on this machine's clock."""
    if end_unix_s is None:
        return "until it is released"
    return f"until {datetime.fromtimestamp(end_unix_s, machine_zone()):%Y-%m-%d %H:%M %Z}"


def _machine(settings: Settings, name: str) -> Machine:
    (machine,) = read_inventory(settings.hardware.inventory).chosen((name,))
    return machine
