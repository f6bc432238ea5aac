"""Where it is written what nodes were and were wanted to be, and which an admin holds: the ledger, as lives need it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from offpeak.door.effect import Hold
from offpeak.door.journal import Journal
from offpeak.ledger.rows import NodeStateRecord
from power.lifecycle.life import SETTLED, NodeLife, NodeState, Now, Seen


class StateBook(Journal, Protocol):
    """The door's journal, and beside it states and holds. Every call may raise CannotWrite."""

    def write_states(self, states: Sequence[NodeStateRecord]) -> None:
        """Write what nodes are from now on: where something changed."""

    def latest(self) -> Mapping[str, NodeStateRecord]:
        """Return what was written last of every node."""

    def hold(self, node: str, hold: Hold, at_unix_s: float) -> None:
        """Keep a node as it is; BadInput where another owner holds it, the own hold is replaced."""

    def release(self, node: str, by: str, at_unix_s: float, *, take_over: bool = False) -> Hold | None:
        """End the hold of a node and return it, None if there was none; BadInput where only `take_over` ends it."""

    def holds(self, at_unix_s: float) -> Mapping[str, Hold]:
        """Return the holds that are neither released nor over, by node."""


def recorded_of(life: NodeLife, now: Now) -> NodeStateRecord:
    """Return what of a life is written, when its face has changed."""
    wish, fault, hold, refusal = life.wish, life.fault, life.hold, life.effort.refusal
    held = f"held by {hold.owner}: {hold.reason}" if hold and hold.lasts(now.unix_s) else ""
    # What was refused because of the hold says no more than the hold.
    is_refused = refusal is not None and not (held and refusal.rule == "held")
    whys = [
        f"{fault.what}: {fault.reason}; {fault.hint}" if fault else "",
        held,
        f"refused ({refusal.rule}): {refusal.said}" if refusal and is_refused else "",
        f"{wish.by}: {wish.why}" if wish else "",
    ]
    desired = str(wish.order) if wish else ""
    why = "; ".join(each for each in whys if each)
    return NodeStateRecord(life.node, now.unix_s, str(life.seen.state), desired, life.seen.by, why)


def life_of(node: str, recorded: NodeStateRecord | None, hold: Hold | None) -> NodeLife:
    """Return the life of a node as the book has it: what it was, so that standby is looked for, and who holds it."""
    if recorded is None:
        return NodeLife(node, hold=hold)
    state = NodeState(recorded.observed)
    known = state if state in SETTLED else None
    at_unix_s = recorded.at_unix_s
    seen = Seen(state, at_unix_s, since_unix_s=at_unix_s, by=recorded.by, known=known)
    return NodeLife(node, seen=seen, hold=hold)
