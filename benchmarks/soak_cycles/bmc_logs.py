"""Takes what the BMCs have logged to the witness and to the nodes, and in the end compares it with the ledger.

So does it with the orders on the wires to the BMCs, some of which the wires lose: these must not come again.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.local_slurm.wire import NOW_S, Wire
from benchmarks.soak_cycles.books import unlike, without_end
from benchmarks.soak_cycles.room import CyclesRoom
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.journal import IntentResult
from offpeak.model.orders import NodeState

LOST = 0.02
"""The share of orders that a wire loses."""
SESSION, CLOSED = "Session ", "Session closed"
"""What ipmi_sim writes of a session's begin and end."""


class BmcLogs:
    """The logs of all BMCs, read as they grow."""

    def __init__(self, room: CyclesRoom, witness: Witness, wires: Iterable[Wire], chance: random.Random) -> None:
        self._room, self._witness, self._wires, self._chance = room, witness, tuple(wires), chance
        self._lines = Counter[str]()
        self._unrecorded = set[tuple[str, int]]()
        self._passed, self._unrecorded_passed = Counter[str](), set[tuple[str, int]]()
        self._lost = Counter[str]()
        for wire in self._wires:
            self._lose_some(wire)

    @property
    def passed(self) -> int:
        """How many orders have passed the wires, or were lost there."""
        return sum(len(wire.orders) for wire in self._wires)

    def _lose_some(self, wire: Wire) -> None:
        def choose() -> None:
            wire.copies_s = () if self._chance.random() < LOST else (NOW_S,)
            self._lost[wire.node] += not wire.copies_s
            self._room.faults["order lost on the wire"] += not wire.copies_s

        wire.before_order = choose

    def _new_on_wires(self) -> dict[str, list[str]]:
        """Return the orders that have passed each wire since this was last asked for."""
        found = {}
        for wire in self._wires:
            if new := [order.text.partition(" ")[0] for order in wire.orders[self._passed[wire.node] :]]:
                found[wire.node] = new
                self._passed[wire.node] += len(new)
        return found

    def after_sweep(self, seen: Mapping[str, NodeState], at_s: float, *, locked: bool) -> None:
        """Take what came in a sweep; while the ledger was locked, wakes went on without a record."""
        for name, orders in self._new_on_wires().items():
            begin = self._passed[name] - len(orders)
            self._unrecorded_passed |= {
                (name, begin + at) for at, order in enumerate(orders) if locked and order == "on"
            }
        logged = self._room.orders()
        self._witness.after_sweep(logged, seen, at_s)
        for name, orders in logged.items():
            for order in orders:
                if locked and order == "on":
                    self._unrecorded.add((name, self._lines[name]))
                self._lines[name] += 1
        self._room.follow(logged)

    def between_sweeps(self) -> None:
        """Take what came when nobody gave orders: nothing on the wires, and at a BMC what had passed its wire before.

        A BMC that was frozen carries out what it had received when it goes on.
        """
        self._witness.between_sweeps(self._new_on_wires())
        late = self._room.orders()
        self._room.faults["order carried out late by a frozen BMC"] += sum(map(len, late.values()))
        for name, orders in late.items():
            self._lines[name] += len(orders)
            if self._lines[name] > self._passed[name] - self._lost[name]:
                self._witness.between_sweeps({name: orders})

    def settle(self, nodes: Iterable[str]) -> None:
        """Return when those BMCs have taken in what was sent to them, but for those that hear nothing."""
        nodes = frozenset(nodes)
        for wire in self._wires:
            if wire.node in nodes:
                wire.settle()
        for node in (self._room.nodes[name] for name in nodes):
            if node.fault not in ("frozen", "dead"):
                node.bmc.settle()

    def open_sessions(self) -> int:
        """Return how many BMCs have closed no session since they opened the last one."""
        logs = ([line for line in node.bmc.lines("log") if SESSION in line] for node in self._room.nodes.values())
        return sum(bool(log) and not log[-1].startswith(CLOSED) for log in logs)

    def unlike(self, actions: tuple[IntentResult, ...]) -> Iterator[str]:
        """Yield what the ledger says otherwise."""
        logs = {name: node.bmc.lines("orders") for name, node in self._room.nodes.items()}
        yield from unlike(logs, actions, self._unrecorded)
        on_wires = {wire.node: [order.text.partition(" ")[0] for order in wire.orders] for wire in self._wires}
        yield from unlike(on_wires, actions, self._unrecorded_passed)
        yield from without_end(actions)
