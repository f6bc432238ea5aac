"""Takes what the BMCs have logged to the witness and to the nodes, and in the end compares it with the ledger."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.soak_cycles.books import unlike, without_end
from benchmarks.soak_cycles.room import CyclesRoom
from benchmarks.soak_cycles.witness import Witness
from offpeak.door.journal import IntentResult
from offpeak.model.orders import NodeState

SESSION, CLOSED = "Session ", "Session closed"
"""What ipmi_sim writes of a session's begin and end."""


class BmcLogs:
    """The logs of all BMCs, read as they grow."""

    def __init__(self, room: CyclesRoom, witness: Witness) -> None:
        self._room, self._witness = room, witness
        self._lines = Counter[str]()
        self._unrecorded = set[tuple[str, int]]()

    def after_sweep(self, seen: Mapping[str, NodeState], at_s: float, *, locked: bool) -> None:
        """Take what came in a sweep; while the ledger was locked, wakes went on without a record."""
        logged = self._room.orders()
        self._witness.after_sweep(logged, seen, at_s)
        for name, orders in logged.items():
            for order in orders:
                if locked and order == "on":
                    self._unrecorded.add((name, self._lines[name]))
                self._lines[name] += 1
        self._room.follow(logged)

    def between_sweeps(self) -> None:
        """Take what came when nobody gave orders."""
        self._witness.between_sweeps(self._room.orders())

    def settle(self, nodes: Iterable[str]) -> None:
        """Return when those BMCs have taken in what was sent to them, but for those that hear nothing."""
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
        yield from without_end(actions)
