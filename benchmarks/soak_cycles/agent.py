"""The agent that is soaked: driver, life cycle, the door with all rules, and the ledger, all as they are."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak_cycles.clock import RoomClock
from benchmarks.soak_cycles.mortal import MortalJournal
from benchmarks.soak_cycles.plan import CyclesPlan
from offpeak.door.effect import US, Effect, Outcome, Refusal
from offpeak.errors import CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.settings.ledger import LedgerSettings
from power.drivers.port import Order, PowerState
from power.drivers.wire import Wire
from power.effects import Site, node_orders
from power.interlocks.no_job_now import InUse
from power.interlocks.sighting import Sighting
from power.lifecycle.decide import Lives
from power.lifecycle.events import Released, Wished
from power.lifecycle.life import NodeState, Wish, Word
from power.lifecycle.lookout import lookout_of
from power.lifecycle.state_book import life_of, recorded_of
from power.lifecycle.step import step
from power.lifecycle.sweep import Means, sweep
from power.lifecycle.terms import Terms
from power.reconcile_journal import reconcile
from power.ways import Ways

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
    in_use: InUse


class Agent:
    """One run of the program. `seen` is what it has published of the nodes before it gave orders."""

    def __init__(self, around: Around, mode: str) -> None:
        self._around, self._mode, clock = around, mode, around.clock
        self.ledger = Ledger(LedgerSettings(url=around.url), clock=clock.unix_s, patience_s=PATIENCE_S)
        self.journal = MortalJournal(self.ledger)
        self.wire = Wire(timeout_s=around.plan.timeout_s, clock=clock.unix_s)
        self._ways = Ways({each.node: each for each in around.machines}, self.wire)
        self.lives, self.seen = Lives(), dict[str, NodeState]()
        self.reconciled = 0

    async def start(self) -> None:
        """Look what became of orders that a run before has left, and take up the lives where the ledger has them."""
        around, clock = self._around, self._around.clock
        self.wait_for_ledger()
        self.reconciled = len(await reconcile(self.ledger, self._look_at, clock.unix_s))
        latest = self.ledger.latest()
        self.lives = Lives({node: life_of(node, latest.get(node), None) for node in around.plan.nodes})
        inventory = Inventory(Path("inventory.toml"), around.machines)
        site = Site(inventory, self._ways, self._sighting, clock.unix_s, lambda _: None, around.in_use, clock.steady)
        self._orders = node_orders(around.plan.settings(self._mode), site, self.journal)
        self._terms = Terms(around.machines[0].hardware, random.Random(around.plan.seed))
        lookout, longest_s = lookout_of(around.machines, self.wire), 4 * self.wire.timeout_s
        self._means = Means(lookout, self._orders.order, self._terms, clock.now, longest_s, self._publish)

    async def round(
        self, words: Mapping[str, Word], wishes: Mapping[str, Order | None]
    ) -> tuple[tuple[Effect, Outcome | Refusal], ...]:
        """Make one round and return what the door was asked and answered."""
        now = self._around.clock.now()
        for node, order in wishes.items():
            if order is not None:
                self.happens(node, Wished(Wish(order, US, now.unix_s, "a soak")))
        self._orders.door.history.begin_sweep()
        swept = await sweep(self._means, self.lives, words)
        self.lives = swept.lives
        self.ledger.write_states([recorded_of(life, now) for life in swept.changed])
        return swept.answers

    def happens(self, node: str, event: Wished | Released) -> None:
        """Take an event into a node's life."""
        life = step(self.lives.nodes[node], event, self._around.clock.now(), self._terms)
        self.lives = Lives({**self.lives.nodes, node: life}, self.lives.times)

    async def close(self) -> int:
        """Log out, write what waits, and return how many rows are lost."""
        await self._ways.close()
        await self.wire.close()
        return self.ledger.close()

    def wait_for_ledger(self) -> None:
        """Return when it can be used again: it tries nothing for a while after a vain attempt."""
        until_s = time.monotonic() + READY_S
        while True:
            try:
                self.ledger.ready()
                return
            except CannotWrite:
                if time.monotonic() > until_s:
                    raise
                time.sleep(PATIENCE_S)

    def _publish(self, lives: Lives) -> None:
        self.lives = lives
        self.seen = {node: life.seen.state for node, life in lives.nodes.items()}

    def _sighting(self, node: str) -> Sighting | None:
        seen = self.lives.nodes[node].seen
        return Sighting(str(seen.state), seen.at_unix_s)

    async def _look_at(self, node: str) -> Sighting:
        observed = await self._ways.bmc_of(node).query()
        state = "unknown" if observed.state is PowerState.UNKNOWN else str(observed.state)
        return Sighting(state, observed.at_unix_s)
