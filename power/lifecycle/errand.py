"""An order by hand: one node brought where an admin wants it, through the door with all its rules."""

import random
from dataclasses import dataclass, replace

from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.settings.agent import AgentSettings
from power.drivers.port import Order
from power.drivers.wire import Wire
from power.effects import Site, node_orders
from power.interlocks.no_job_now import InUse
from power.interlocks.sighting import Sighting
from power.lifecycle.bring import bring
from power.lifecycle.decide import Lives
from power.lifecycle.life import NodeLife, Wish
from power.lifecycle.look_once import look_once, now_of
from power.lifecycle.lookout import lookout_of
from power.lifecycle.state_book import StateBook, life_of, recorded_of
from power.lifecycle.sweep import Means
from power.lifecycle.terms import Terms, conduct_of
from power.ways import Ways

POLL_S = 2.0
LONGEST_S = 60.0


@dataclass(frozen=True)
class Errand:
    """What an errand goes by: the machines, the door's settings, the book, and what asks the scheduler."""

    inventory: Inventory
    settings: AgentSettings
    book: StateBook
    wire: Wire
    in_use: InUse
    poll_s: float = POLL_S


async def run_errand(errand: Errand, machine: InventoryNode, order: Order, *, by: str, reason: str) -> NodeLife:
    """Return the node's life when it is where the order leads, or refused, or given up; the book has it then too."""
    wire, book = errand.wire, errand.book
    recorded, holds = book.latest(), book.holds(wire.clock())
    ways = Ways({each.node: each for each in errand.inventory.machines}, wire)
    seen = dict(await _others(errand, order))

    def sighting_of(node: str) -> Sighting | None:
        life = seen.get(node)
        return None if life is None else Sighting(str(life.seen.state), life.seen.at_unix_s)

    def publish(lives: Lives) -> None:
        seen.update(lives.nodes)

    site = Site(errand.inventory, ways, sighting_of, wire.clock, holds.get, errand.in_use)
    door = node_orders(errand.settings, site, book).order
    terms = Terms(machine.hardware, random.Random(), conduct=conduct_of(errand.settings))
    means = Means(lookout_of((machine,), wire), door, terms, lambda: now_of(wire), LONGEST_S, publish)
    before = life_of(machine.node, recorded.get(machine.node), holds.get(machine.node))
    try:
        life = await bring(means, before, Wish(order, by, wire.clock(), reason), poll_s=errand.poll_s)
    finally:
        await ways.close()
    # What was refused is over: nobody goes on wanting it.
    kept = replace(life, wish=None) if life.effort.refusal else life
    book.write_states([recorded_of(kept, now_of(wire))])
    return life


async def _others(errand: Errand, order: Order) -> dict[str, NodeLife]:
    """Return all nodes that may be touched as they are now: before one goes down, the door counts those that are on."""
    nodes = expand(errand.settings.nodes) if errand.settings.nodes and order is not Order.ON else ()
    if not nodes:
        return {}
    machines = errand.inventory.chosen(nodes)
    return dict(await look_once(machines, {node: NodeLife(node) for node in nodes}, errand.wire))
