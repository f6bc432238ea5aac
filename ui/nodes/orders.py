"""Run `offpeak nodes NAME ACTION`: show, hold and release a node, wake it or send it to sleep; and `offpeak cap`.

`wake` and `sleep` go through the door, until the node has reached the state or is given up.
"""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import typer

from offpeak.display import power_text
from offpeak.door.effect import ADMIN, Hold
from offpeak.errors import BadAnswer, BadInput, BadInventory, OffpeakError
from offpeak.ledger.ledger import Ledger, open_ledger_to_write
from offpeak.machines.inventory import SLEEP_METHODS, Inventory, InventoryNode
from offpeak.machines.inventory_file import read_inventory
from offpeak.machines.node_sets import expand, fold
from offpeak.model.orders import NodeOrder
from offpeak.model.time_range import parse_coming_time
from offpeak.model.units import parse_duration_s, parse_power_w
from offpeak.model.zones import machine_zone
from offpeak.plugin.scheduler.registry import scheduler_of
from offpeak.power.check.standby import OrderRefused
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.admin_order import AdminOrder, execute_order
from offpeak.power.lifecycle.decisions import find_obstacle
from offpeak.power.lifecycle.node_record import DesiredState, NodeRecord, is_goal
from offpeak.power.lifecycle.sweep import read_clocks
from offpeak.process import AlreadyRunning, exclusive_lock, login_name
from offpeak.services.agent.node_closer import NodeCloser
from offpeak.services.agent.requests import CAP, END_HOLD, HOLD, format_hold, format_order
from offpeak.services.agent.status import AgentSilent, exchange, fetch_clock, send_node_request
from offpeak.settings.table import Settings
from offpeak.ui.nodes.nodes import node_rows, since_text
from offpeak.ui.terminal import print_table, text_table

Change = TypeVar("Change")
CONFIRM_S = 40.0
"""The agent confirms a hold when an order to the node that is under way has ended."""


def print_node(settings: Settings, name: str, *, as_json: bool) -> None:
    """Print the known attributes of the node."""
    machine = _machine_named(settings, name)
    (row,) = node_rows(settings, (machine,))
    if as_json:
        typer.echo(json.dumps(asdict(row), indent=2))
        return
    since = since_text([row], fetch_clock(settings.agent.socket))
    enrolled = machine.enrolled
    known = {
        "state": row.state + (f", for {since}, by {row.by}" if since else ""),
        "wanted": row.desired,
        "why": row.why,
        "draws": power_text(row.watts) if row.watts is not None else "",
        "hardware": machine.hardware.name,
        "sleeps by": ", ".join(order for order in SLEEP_METHODS if machine.usable_method(order)),
        "bmc": machine.bmc or "",
        "rack": machine.rack or "",
        "enrolled": f"{enrolled.identity} on {enrolled.date}" if enrolled else "no",
    }
    for line in [f"{key + ':':<11}{value}" for key, value in {"node": row.node, **known}.items() if value]:
        typer.echo(line)


def hold(settings: Settings, name: str, reason: str | None, until: str | None) -> None:
    """Hold the node, so that no other user switches it; raise BadInput without a reason or if another user holds it.

    Raise OffpeakError if the hold is written, but a running program that switches nodes does not confirm it.
    """
    if not reason:
        raise BadInput("a hold needs a reason", hint='such as --reason "new DIMM"; other admins see it')
    now = datetime.now(machine_zone())
    end = None if until is None else parse_coming_time("--until", until, now)
    reply = _confirm_with_agent(settings, HOLD, name, format_hold(reason, end, take_over=False))
    if reply is None:
        _machine_named(settings, name)
        wanted = Hold(login_name(), reason, end)
        _write_without_agent(settings, name, "held", lambda book: book.hold(name, wanted, now.timestamp()))
        reply = {"by": login_name()}
    typer.echo(f"{name}: held by {reply.get('by')} {until_text(end)}")
    if reply.get("note"):
        typer.echo(f"  {reply['note']}")


def release(settings: Settings, name: str, *, take_over: bool) -> None:
    """Release the node; raise BadInput if another admin holds it, unless the hold is taken over."""
    reply = _confirm_with_agent(settings, END_HOLD, name, format_hold("", None, take_over=take_over))
    if reply is None:
        _machine_named(settings, name)
        found = _write_without_agent(
            settings, name, "released", lambda book: book.release(name, _admin(), time.time(), take_over=take_over)
        )
        reply = {"owner": found.owner, "reason": found.reason} if found else {}
    owner = reply.get("owner")
    typer.echo(
        f"{name}: was not held" if owner is None else f"{name}: no longer held by {owner}: {reply.get('reason')}"
    )


def _confirm_with_agent(settings: Settings, what: str, name: str, text: str) -> dict[str, Any] | None:
    """Return the agent's reply once the change is in force, None if no agent listens; raise BadInput if it refuses."""
    socket = settings.agent.socket
    try:
        return exchange(socket, {"tell": what, "nodes": name, "text": text}, patience_s=CONFIRM_S)
    except AgentSilent:
        return None


def _write_without_agent(settings: Settings, name: str, what: str, write: Callable[[Ledger], Change]) -> Change:
    """Write a hold or its end without an agent; raise OffpeakError if a running program may not know of it yet."""
    problem: AlreadyRunning | None = None
    with ExitStack() as alone:
        try:
            alone.enter_context(exclusive_lock(settings.agent.state_folder))
        except AlreadyRunning as other:
            problem = other
        except BadInput:
            # Without its state folder no agent can run.
            pass
        with open_ledger_to_write(settings.ledger) as book:
            change = write(book)
    if problem is not None:
        message = f"{name}: is written as {what}, but a running offpeak has not confirmed it: {problem}"
        hint = "it may follow within a cycle; an order may still go out: `offpeak ledger actions` shows the last ones"
        raise OffpeakError(message, hint=hint)
    return change


def until_text(end_unix_s: float | None) -> str:
    """Return when a hold ends, on this machine's clock."""
    if end_unix_s is None:
        return "until it is released"
    return f"until {datetime.fromtimestamp(end_unix_s, machine_zone()):%Y-%m-%d %H:%M %Z}"


def _machine_named(settings: Settings, name: str) -> InventoryNode:
    (machine,) = read_inventory(settings.hardware.inventory).chosen((name,))
    return machine


CAP_PATIENCE_S = 65.0
"""The agent reads each device, limits it, and reads it again; a dead one takes its time limit."""
SHOWN = ("node", "device", "cap", "limit", "draws", "until", "by", "reason")


def cap(settings: Settings, nodes: str, limit: str, duration: str, reason: str) -> None:
    """Cap the nodes through the agent, or bring back their former limits, and print the outcome of each. Raise
    OffpeakError if a node did not follow, or no agent runs: nothing else would end the cap.
    """
    cap_w = None if limit == "off" else round(parse_power_w(limit))
    fields = {"cap_w": cap_w, "for_s": None if cap_w is None else parse_duration_s(duration), "reason": reason}
    reply = _exchange_caps(settings, fold(expand(nodes)), fields)
    for line in reply["lines"]:
        typer.echo(line)
    if reply["failed"]:
        raise OffpeakError("not all nodes have the new cap", hint="`offpeak cap` shows the caps in force")


def print_caps(settings: Settings, *, as_json: bool) -> None:
    """Print the caps in force, and what was read back from their devices."""
    caps = _exchange_caps(settings, "", {"cap_w": None, "for_s": None, "reason": ""})["caps"]
    if as_json:
        typer.echo(json.dumps(caps, indent=2))
        return
    if not caps:
        typer.echo("no node is capped")
        return
    rows = []
    for each in caps:
        read = [power_text(each[key]) if each[key] is not None else "-" for key in ("limit_w", "draw_w")]
        end = until_text(each["until_unix_s"]).removeprefix("until ") if each["until_unix_s"] else "now"
        rows.append((each["node"], each["device"], power_text(each["cap_w"]), *read, end, each["by"], each["reason"]))
    print_table(text_table(SHOWN, rows, texts=range(len(SHOWN))))


def _exchange_caps(settings: Settings, nodes: str, fields: dict[str, Any]) -> dict[str, Any]:
    request = {"tell": CAP, "nodes": nodes, "text": json.dumps(fields)}
    try:
        return exchange(settings.agent.socket, request, patience_s=CAP_PATIENCE_S)
    except AgentSilent as silent:
        hint = "an agent that was killed left caps? `systemctl start offpeak-agent`, or `offpeak agent --restore`"
        raise OffpeakError(f"{silent}: no agent would end a cap", hint=hint) from None


def order(settings: Settings, name: str, wanted: NodeOrder, reason: str | None) -> None:
    """Drive the node to the wanted state and print how long that took; if an agent runs, pass the order to it.

    Raise BadInventory if its hardware has no such sleep depth, NotLetThrough if a rule refuses, BadAnswer if the node
    does not reach the state.
    """
    inventory, to = read_inventory(settings.hardware.inventory), wanted
    (machine,) = inventory.chosen((name,))
    if to is not NodeOrder.ON and machine.hardware.sleep_method(to) is None:
        hint = f"add a table [hardware.{machine.hardware.name}.{to}], or choose another --depth"
        raise BadInventory(f"{machine.node}: its hardware has no {to}", hint=hint)
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
        f"{name}: the agent has the order{how}; a rule may still refuse it: `offpeak nodes {name} show` shows its"
        f" progress, `offpeak history --subject {name}` what was refused"
    )


def _drive_node(settings: Settings, inventory: Inventory, machine: InventoryNode, to: NodeOrder, reason: str) -> None:
    name, wire, began_s = machine.node, Transport(timeout_s=settings.hardware.timeout_s), time.monotonic()
    scheduler = scheduler_of(settings)
    with open_ledger_to_write(settings.ledger) as book:
        # The agent of another head node may be active.
        book.claim_for_command()
        admin_order = AdminOrder(inventory, settings.agent, book, wire, scheduler.find_uses)
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
        f"{record.node}: is {record.observed.state}: {why or 'on its way'}", hint=f"offpeak nodes {record.node} show"
    )


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
