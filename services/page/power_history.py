"""The power of nodes in the last day by state, and the power if all nodes had stayed on.

A node is busy when a job ran on it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from offpeak.ledger.backlog import QUARTER_S
from offpeak.ledger.node_energy import NodeMean, node_means
from offpeak.ledger.records import Record, states_in
from offpeak.model.constants import HOUR_S
from offpeak.model.time_range import TimeRange
from services.accounts.ended_jobs import JobSpan, find_node_runs

SHOWN_S = 24 * HOUR_S
STILL_CHANGES_S = 2 * QUARTER_S
"""Readings of a quarter-hour reach the ledger until some time after its end."""
ON, BUSY = "on", "busy"
AWAKE = (BUSY, ON, "unknown")
"""States in which a node draws the same power as without offpeak; BUSY is on, with a job."""


@dataclass(frozen=True)
class PowerSlot:
    """A quarter-hour: power by state [W], power without offpeak, and the number of measured nodes."""

    by_state: Mapping[str, float]
    without_w: float
    nodes: int


@dataclass
class NodePowerHistory:
    """The quarter-hours of the last day by their first second; settled ones are not read again."""

    slots: dict[int, PowerSlot] = field(default_factory=dict)
    _settled_unix_s: float = 0.0

    def read(self, connection: Connection, now_unix_s: float, idle_w: Mapping[str, float]) -> None:
        """Read the ledger; `idle_w` is the power of each node when it is on and idle."""
        first = (now_unix_s - SHOWN_S) // QUARTER_S * QUARTER_S
        span = TimeRange(max(first, self._settled_unix_s), now_unix_s)
        means, states, runs = (
            node_means(connection, span),
            states_in(connection, span),
            find_node_runs(connection, span),
        )
        new = make_power_slots(means, states, runs, idle_w)
        self.slots = {at: slot for at, slot in (self.slots | new).items() if at >= first}
        self._settled_unix_s = (now_unix_s - STILL_CHANGES_S) // QUARTER_S * QUARTER_S


def make_power_slots(
    means: Iterable[NodeMean],
    states: Sequence[Record],
    runs: Mapping[str, Sequence[JobSpan]],
    idle_w: Mapping[str, float],
) -> dict[int, PowerSlot]:
    """Return the quarter-hours; a node counts with its state in the middle of each."""
    changes: dict[str, tuple[list[float], list[str]]] = defaultdict(lambda: ([], []))
    for record in states:
        at_s, observed = changes[record["node"]]
        at_s.append(record["at_unix_s"])
        observed.append(record["observed"])
    watts: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    without: dict[int, float] = defaultdict(float)
    nodes: dict[int, int] = defaultdict(int)
    for at, node, power_w in means:
        middle_s = at + QUARTER_S / 2
        state = _state_at(changes.get(node), middle_s)
        if state == ON and any(from_s <= middle_s < until_s for from_s, until_s in runs.get(node, ())):
            state = BUSY
        watts[at][state] += power_w
        without[at] += power_w if state in AWAKE else max(power_w, idle_w.get(node, power_w))
        nodes[at] += 1
    return {at: PowerSlot(dict(by_state), without[at], nodes[at]) for at, by_state in watts.items()}


def _state_at(changes: tuple[list[float], list[str]] | None, unix_s: float) -> str:
    if changes is None:
        return "unknown"
    at_s, observed = changes
    return observed[max(0, bisect_right(at_s, unix_s) - 1)]
