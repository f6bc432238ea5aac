"""A node's standby, tested on request: through the door, so only where the scheduler says that the node is free."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from offpeak.door.effect import Effect, Hold, Refusal
from offpeak.door.journal import Journal
from offpeak.errors import BadAnswer, BadInventory, OffpeakError
from offpeak.machines.inventory import Inventory, InventoryNode, SleepMethod
from offpeak.machines.node_sets import expand
from offpeak.settings.agent import AgentSettings
from power.door.node_orders import InterlockContext, NodeOrders, make_node_orders
from power.drivers.node_ssh import NodeSsh
from power.drivers.port import Order
from power.drivers.wire import Wire
from power.interlocks.preconditions import ON, STANDBY, UNKNOWN, InUse, StateReading
from power.meters.port import Meter
from power.meters.registry import bmc_meter
from power.standby import Parts, StandbyProof, dead_man_s, prove_standby
from power.ways import Ways


class NotLetThrough(OffpeakError):
    """The door refused: nothing was done."""


@dataclass(frozen=True)
class Trial:
    """The settings of the door, the ledger, who ordered the test ("admin NAME"), and whom the rules ask."""

    inventory: Inventory
    wire: Wire
    settings: AgentSettings
    journal: Journal
    by: str
    in_use: InUse
    hold_of: Callable[[str], Hold | None]


async def try_standby(machine: InventoryNode, trial: Trial) -> StandbyProof:
    """Return what one suspend and one wake-up of the node have shown.

    BadInventory if it has no such rung; NotLetThrough, and nothing is sent, where a rule of the door refuses.
    """
    rung = machine.hardware.rung("standby")
    if rung is None or machine.ssh is None:
        missing = "standby" if rung is None else "ssh"
        hint = f"docs/how-to/standby.md shows what [hardware.{machine.hardware.name}] needs"
        raise BadInventory(f"{machine.node}: its hardware has no {missing}", hint=hint)
    wire = trial.wire
    node, meter = NodeSsh(machine, logins=wire.logins, timeout_s=wire.timeout_s), bmc_meter(machine, wire)
    machines = {each.node: each for each in trial.inventory.machines}
    ways = Ways(machines, wire, dead_man_s=dead_man_s(rung))
    try:
        seen = await _look_at(trial, ways)
        site = InterlockContext(trial.inventory, ways, seen.get, wire.clock, trial.hold_of, trial.in_use)
        orders = make_node_orders(trial.settings, site, trial.journal)

        async def order(order: Order, way: str) -> None:
            # It answers before it is told to sleep, and is told to wake once it has proven to sleep.
            state = STANDBY if order is Order.ON else ON
            seen[machine.node] = StateReading(state, wire.clock())
            await _ordered(orders, _effect(machine, order, way, trial.by, rung))

        return await prove_standby(Parts(node, rung, order, partial(_watts, meter) if meter else None))
    finally:
        await ways.close()
        if meter:
            await meter.close()


def _effect(machine: InventoryNode, order: Order, way: str, by: str, rung: SleepMethod) -> Effect:
    inputs = (("way", way),) if way else (("alarm_s", dead_man_s(rung)),)
    return Effect(machine.node, order, by, "test of its standby", inputs)


async def _ordered(orders: NodeOrders, effect: Effect) -> None:
    answer = await orders.order(effect)
    if isinstance(answer, Refusal):
        raise NotLetThrough(f"{answer.said}; it was not touched", hint=answer.hint)
    if answer.result != "done":
        raise BadAnswer(answer.said, hint=f"offpeak check {effect.subject}")


async def _look_at(trial: Trial, ways: Ways) -> dict[str, StateReading]:
    """Return the states of all nodes that may be touched: the door asks how many of them are on."""
    nodes = expand(trial.settings.nodes) if trial.settings.nodes else ()
    return dict(zip(nodes, await asyncio.gather(*(_seen(node, ways, trial.wire) for node in nodes)), strict=True))


async def _seen(node: str, ways: Ways, wire: Wire) -> StateReading:
    try:
        observed = await ways.bmc_of(node).query()
    except BadInventory:
        return StateReading(UNKNOWN, wire.clock())
    return StateReading(observed.state, observed.at_unix_s)


async def _watts(meter: Meter) -> float | None:
    drawn = [each.power_w for each in await meter.read()]
    return None if None in drawn else sum(each for each in drawn if each is not None)
