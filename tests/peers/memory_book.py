"""A book that is forgotten when the program ends."""

from collections.abc import Mapping, Sequence

from memory_journal import MemoryJournal

from offpeak.door.effect import Hold
from offpeak.errors import BadInput
from offpeak.ledger.rows import NodeStateRecord


class MemoryBook(MemoryJournal):
    """Implements offpeak.power.lifecycle.node_record.StateLedger."""

    def __init__(self) -> None:
        super().__init__()
        self._latest: dict[str, NodeStateRecord] = {}
        self._holds: dict[str, Hold] = {}

    def write_states(self, states: Sequence[NodeStateRecord]) -> None:
        """Keep them."""
        self._latest.update({state.node: state for state in states})

    def latest(self) -> Mapping[str, NodeStateRecord]:
        """Return what came last of every node."""
        return dict(self._latest)

    def hold(self, node: str, hold: Hold, at_unix_s: float) -> None:
        """Keep it; BadInput where another owner holds the node."""
        other = self.holds(at_unix_s).get(node)
        if other is not None and other.owner != hold.owner:
            hint = f"ask {other.owner} first, then: offpeak nodes {node} release --take-over"
            raise BadInput(f"{node}: is held by {other.owner}: {other.reason}", hint=hint)
        self._holds[node] = hold

    def release(self, node: str, by: str, at_unix_s: float, *, take_over: bool = False) -> Hold | None:  # noqa: ARG002
        """Forget it."""
        found = self.holds(at_unix_s).get(node)
        self._holds.pop(node, None)
        return found

    def holds(self, at_unix_s: float) -> Mapping[str, Hold]:
        """Return those that last."""
        return {node: hold for node, hold in self._holds.items() if hold.lasts(at_unix_s)}
