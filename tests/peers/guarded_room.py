"""A virtual room whose nodes are switched through the door, all rules on; its BMCs' own logs are the witness."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from memory_journal import MemoryJournal
from served_room import ServedRoom, planned, served_room

from offpeak.door.effect import Effect, Hold, Outcome, Refusal
from offpeak.door.journal import Journal
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.port import NodeUses, Scheduler
from offpeak.power.check.devices import EnrolmentRules, probe_bmcs
from offpeak.power.door.node_orders import InterlockContext, NodeOrders, make_node_orders
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.settings.agent import AgentSettings
from offpeak.sim_backend.virtual.room_plan import room_logins, write_inventory

ALL_OPEN = AgentSettings(mode="active", nodes="n[1-6]", min_on=0, rack_nodes_per_min=100)
OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle for an hour")
ON = replace(OFF, order=NodeOrder.ON)

Answer = TypeVar("Answer")


@dataclass
class GuardedRoom:
    """A room, and the inputs of the rules; `jobs` are the nodes with a job by the scheduler.

    `scheduler` is one that runs, `in_use` replies in its place. `passed_s` is how much longer ago than really
    everything was for the limits; `steady` is the clock by which answers age.
    """

    served: ServedRoom
    inventory: Inventory
    runner: asyncio.Runner
    wire: Transport = field(default_factory=lambda: Transport(timeout_s=8.0))
    journal: Journal = field(default_factory=MemoryJournal)
    seen: dict[str, StateReading] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    in_use: Callable[[str], str] | None = None
    scheduler: Scheduler | None = None
    late_s: float = 0.0
    passed_s: float = 0.0
    steady: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.ways = DriverPool({machine.node: machine for machine in self.inventory.machines}, self.wire)

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the result of a coroutine, on the event loop of all sessions."""
        return self.runner.run(call)

    def orders(self, settings: AgentSettings = ALL_OPEN, *, journal: Journal | None = None) -> NodeOrders:
        """Return the way through a new door, as after a start of the program."""
        site = InterlockContext(
            self.inventory,
            self.ways,
            self.seen.get,
            self.clock,
            self.holds.get,
            self.find_uses,
            lambda: time.monotonic() + self.passed_s,
            lambda: self.steady(),
        )
        return make_node_orders(settings, site, journal or self.journal)

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        """Return the use of each of these nodes."""
        if self.scheduler is not None:
            return self.scheduler.find_uses(nodes)
        in_use = self.in_use or (lambda node: self.jobs.get(node, ""))
        return {node: in_use(node) for node in nodes}

    def clock(self) -> float:
        """The wall clock, which is ahead by `late_s`."""
        return self.wire.clock() + self.late_s

    def look(self) -> None:
        """Poll every node."""

        async def seen() -> None:
            for machine in self.inventory.machines:
                observed = await self.ways.bmc_of(machine.node).query()
                self.seen[machine.node] = StateReading(observed.state, self.clock())

        self.run(seen())

    def order(self, effect: Effect, settings: AgentSettings = ALL_OPEN) -> Outcome | Refusal:
        """Poll all nodes and send an order."""
        self.look()
        return self.run(self.orders(settings).order(effect))

    def order_all(self, effects: Sequence[Effect], settings: AgentSettings = ALL_OPEN) -> list[Outcome | Refusal]:
        """Poll all nodes and send the orders at the same time."""
        self.look()
        orders = self.orders(settings)

        async def all_at_once() -> list[Outcome | Refusal]:
            return await asyncio.gather(*map(orders.order, effects))

        return self.run(all_at_once())

    def do(self, act: Callable[[Any], Answer]) -> Answer:
        """Do something to the room."""
        return self.served.do(act)

    def reported(self) -> dict[str, list[int]]:
        """Return the chassis controls that each BMC received, if any."""
        return self.do(lambda room: {node: list(bmc.orders) for node, bmc in room.bmcs.items() if bmc.orders})


@contextmanager
def guarded_room(folder: Path, nodes: str = "n[1-6]") -> Iterator[GuardedRoom]:
    """Run a room of enrolled nodes until the block ends."""
    plan = planned(nodes, clock_factor=1000.0)
    path = write_inventory(folder, plan, node_class="server", made_by="a test")
    with served_room(plan, room_logins(folder)) as served, asyncio.Runner() as runner:
        machines = read_inventory(path).machines
        probed = runner.run(probe_bmcs(machines, Transport(timeout_s=10.0), EnrolmentRules("2026-11-21")))
        write_enrolments(
            path,
            {result.node: result.enrolled for result in probed if result.enrolled},
        )
        room = GuardedRoom(served, read_inventory(path), runner)
        try:
            yield room
        finally:
            runner.run(room.ways.close())
            runner.run(room.wire.close())
