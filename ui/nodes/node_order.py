"""Run `offpeak node NAME wake` and `sleep` through the door, until the node has reached the state or is given up."""

import asyncio
import time
from functools import partial

import typer

from offpeak.door.effect import ADMIN
from offpeak.errors import BadAnswer, BadInventory
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder
from offpeak.process import AlreadyRunning, exclusive_lock, login_name
from offpeak.settings.table import Settings
from plugin.scheduler.registry import scheduler_of
from power.check.standby import OrderRefused
from power.drivers.transport import Transport
from power.lifecycle.admin_order import AdminOrder, execute_order
from power.lifecycle.decisions import find_obstacle
from power.lifecycle.node_record import DesiredState, NodeRecord, is_goal
from power.lifecycle.sweep import read_clocks
from services.agent.node_closer import NodeCloser
from services.agent.requests import format_order
from services.agent.status import AgentSilent, send_node_request
from ui.node_ledger import open_ledger_to_write


def order(settings: Settings, name: str, wanted: NodeOrder, reason: str | None) -> None:
    """Drive the node to the wanted state and print how long that took; if an agent runs, pass the order to it.

    Raise BadInventory if its hardware has no such sleep depth, NotLetThrough if a rule refuses, BadAnswer if the node
    does not reach the state.
    """
    inventory, to = read_inventory(settings.hardware.inventory), wanted
    (machine,) = inventory.chosen((name,))
    _check_sleep_method(machine, to)
    try:
        with exclusive_lock(settings.agent.state_folder):
            _drive_node(settings, inventory, machine, to, reason or "by hand")
    except AlreadyRunning as problem:
        _send_to_agent(settings, name, to, reason or "by hand", problem)


def _send_to_agent(settings: Settings, name: str, to: NodeOrder, reason: str, other: AlreadyRunning) -> None:
    try:
        send_node_request(settings.agent.socket, "order", name, format_order(to, by=_admin(), reason=reason))
    except AgentSilent:
        # The other program is not an agent, but a command like this one.
        raise other from None
    how = "" if to is NodeOrder.ON else ", closes it to jobs in the scheduler, and orders it when it has none"
    typer.echo(
        f"{name}: the agent is told{how}; a rule may still refuse it: `offpeak node {name}` shows how it goes on,"
        f" `offpeak history --subject {name}` what was refused"
    )


def _drive_node(settings: Settings, inventory: Inventory, machine: InventoryNode, to: NodeOrder, reason: str) -> None:
    name, wire, began_s = machine.node, Transport(timeout_s=settings.hardware.timeout_s), time.monotonic()
    scheduler = scheduler_of(settings)
    with open_ledger_to_write(settings.ledger) as book:
        admin_order = AdminOrder(inventory, settings.agent, book, wire, scheduler.in_use)
        closer = NodeCloser(inventory, settings.agent, book, wire, scheduler)
        record, note = asyncio.run(_run_order(admin_order, closer, machine, to, reason))
    error = error_of_order(record, to, wire)
    if error is not None:
        if note:
            typer.echo(f"{name}: {note}", err=True)
        raise error
    took = f"after {time.monotonic() - began_s:.0f} s" if record.measured else "already"
    typer.echo(f"{name}: {record.observed.state} {took}")
    if note:
        typer.echo(f"  {note}")


def error_of_order(record: NodeRecord, to: NodeOrder, wire: Transport) -> OrderRefused | BadAnswer | None:
    """Return why the node has not reached the state, None if it has."""
    refusal, fault = record.attempts.refusal, record.fault
    if is_goal(to, record.observed.state):
        return None
    if refusal is not None:
        return OrderRefused(f"{refusal.message} (rule {refusal.rule})", hint=refusal.hint)
    if fault is not None:
        return BadAnswer(f"{record.node}: {fault.what}: {fault.reason}", hint=fault.hint)
    why = find_obstacle(record, read_clocks(wire))
    return BadAnswer(
        f"{record.node}: is {record.observed.state}: {why or 'on its way'}", hint=f"offpeak node {record.node} show"
    )


def _check_sleep_method(machine: InventoryNode, to: NodeOrder) -> None:
    if to is not NodeOrder.ON and machine.hardware.sleep_method(to) is None:
        hint = f"add a table [hardware.{machine.hardware.name}.{to}], or choose another --depth"
        raise BadInventory(f"{machine.node}: its hardware has no {to}", hint=hint)


def _admin() -> str:
    return f"{ADMIN}{login_name()}"


async def _run_order(
    admin_order: AdminOrder, closer: NodeCloser, machine: InventoryNode, to: NodeOrder, reason: str
) -> tuple[NodeRecord, str]:
    """Return the record of the node, and a note on changes in the scheduler."""
    by = _admin()
    send = partial(execute_order, admin_order, machine, to, by=by, reason=reason)
    try:
        if to is not NodeOrder.ON:
            return await closer.close_first(machine, DesiredState(to, by, admin_order.wire.clock(), reason), send)
        record = await send()
        if not is_goal(to, record.observed.state):
            return record, ""
        return record, await closer.open_if_ours(machine.node, by, was_up=record.measured is None)
    finally:
        await admin_order.wire.close()
