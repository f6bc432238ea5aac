"""The agent that is soaked: driver, life cycle, the door with all rules, and the ledger, all as they are."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.mortal import MortalJournal
from benchmarks.soak_cycles.plan import CyclesPlan
from offpeak.door.effect import AGENT, Effect, Outcome, Refusal
from offpeak.errors import CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.plugin.scheduler.port import FindUses
from offpeak.power.door.node_orders import InterlockContext, make_node_orders, reconcile
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    Release,
    make_state_row,
    restore_record,
)
from offpeak.power.lifecycle.sweep import SweepContext, ledger_fields, make_poller, sweep
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.settings.ledger import LedgerSettings

Answer = TypeVar("Answer")

READY_S = 30.0
PATIENCE_S = 0.2
"""Of the ledger: it is locked on purpose, and a sweep should not wait long."""


@dataclass(frozen=True)
class Around:
    """What an agent finds: the machines, the ledger's address, the clocks, and what asks the scheduler."""

    plan: CyclesPlan
    machines: tuple[InventoryNode, ...]
    url: str
    clock: RoomClock
    find_uses: FindUses


class Agent:
    """One run of the program. `seen` is what it has published of the nodes before it gave orders."""

    def __init__(self, around: Around, mode: str) -> None:
        self._around, self._mode, clock = around, mode, around.clock
        self.ledger = Ledger(LedgerSettings(url=around.url), clock=clock.unix_s, patience_s=PATIENCE_S)
        self.journal = MortalJournal(self.ledger)
        self.wire = Transport(timeout_s=around.plan.timeout_s, clock=clock.unix_s)
        self._ways = DriverPool({machine.node: machine for machine in around.machines}, self.wire)
        self.records, self.seen = NodeRecords(), dict[str, NodeState]()
        self.reconciled = 0
        self._answers: list[tuple[Effect, Outcome | Refusal]] = []

    async def start(self) -> None:
        """Look what became of orders that a run before has left, and take up the lives where the ledger has them."""
        around, clock = self._around, self._around.clock
        self.wait_for_ledger()
        self.reconciled = len(await reconcile(self.ledger, self._look_at, clock.unix_s))
        latest = self._when_ready(self.ledger.latest)
        self.records = NodeRecords({node: restore_record(node, latest.get(node), None) for node in around.plan.nodes})
        inventory = Inventory(Path("inventory.toml"), around.machines)
        site = InterlockContext(
            inventory, self._ways, self._read_state, clock.unix_s, lambda _: None, around.find_uses, clock.steady
        )
        settings = around.plan.settings(self._mode)
        self._orders = self._when_ready(lambda: make_node_orders(settings, site, self.journal))
        self._terms = NodeContext(around.machines[0].hardware, random.Random(around.plan.seed))
        poller, longest_s = make_poller(around.machines, self.wire), 4 * self.wire.timeout_s
        self._sweep_context = SweepContext(poller, self._order, self._terms, clock.now, longest_s, self._publish)

    async def round(
        self, states: Mapping[str, SchedulerState], desired: Mapping[str, NodeOrder | None]
    ) -> tuple[tuple[Effect, Outcome | Refusal], ...]:
        """Make one round and return what the door was asked and answered."""
        now = self._around.clock.now()
        for node, order in desired.items():
            if order is not None:
                self.happens(node, DesiredStateChange(DesiredState(order, AGENT, now.unix_s, "a soak")))
        self._orders.door.history.begin_sweep()
        before, self._answers = self.records.nodes, []
        self.records = await sweep(self._sweep_context, self.records, states)
        changed = [
            record
            for node, record in self.records.nodes.items()
            if ledger_fields(record) != ledger_fields(before.get(node))
        ]
        self.ledger.write_states([make_state_row(record, now) for record in changed])
        return tuple(self._answers)

    async def _order(self, effect: Effect, before_sending: Callable[[], None]) -> Outcome | Refusal:
        answer = await self._orders.order(effect, before_sending)
        self._answers.append((effect, answer))
        return answer

    def happens(self, node: str, event: DesiredStateChange | Release) -> None:
        """Take an event into a node's life."""
        record = apply_event(self.records.nodes[node], event, self._around.clock.now(), self._terms)
        self.records = NodeRecords({**self.records.nodes, node: record}, self.records.times)

    async def close(self) -> int:
        """Log out, write what waits, and return how many rows are lost."""
        await self._ways.close()
        await self.wire.close()
        await self._sweep_context.poller.close()
        return self.ledger.close()

    def wait_for_ledger(self) -> None:
        """Return when it can be used again: it tries nothing for a while after a vain attempt."""
        self._when_ready(self.ledger.ready)

    def _when_ready(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer of the ledger, which takes long on a busy machine."""
        until_s = time.monotonic() + READY_S
        while True:
            try:
                return ask()
            except CannotWrite:
                if time.monotonic() > until_s:
                    raise
                time.sleep(PATIENCE_S)

    def _publish(self, records: NodeRecords) -> None:
        self.records = records
        self.seen = {node: record.observed.state for node, record in records.nodes.items()}

    def _read_state(self, node: str) -> StateReading | None:
        seen = self.records.nodes[node].observed
        return StateReading(seen.state, seen.at_unix_s)

    async def _look_at(self, node: str) -> StateReading:
        observed = await self._ways.bmc_of(node).query()
        return StateReading(NodeState(observed.state), observed.at_unix_s)
