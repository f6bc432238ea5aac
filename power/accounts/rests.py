"""The times in which a node was not on: on its way down, asleep, on its way up; from what the ledger has of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from offpeak.door.effect import SCHEDULER
from offpeak.ledger.rows import NodeStateRecord
from offpeak.model.local_time import TimeRange
from power.lifecycle.node_record import ASLEEP, NodeState

AWAY = ASLEEP | {NodeState.GOING_DOWN, NodeState.BOOTING}
OURS = frozenset({"offpeak", SCHEDULER})
"""Who lets nodes rest: offpeak, which the scheduler then has woken for a job."""


@dataclass(frozen=True)
class Rest:
    """A node from when it left ON until it was ON again, or the time ended: seconds in each state."""

    node: str
    from_unix_s: float
    until_unix_s: float
    seconds: Mapping[NodeState, float]

    @property
    def length_s(self) -> float:
        """All of it."""
        return self.until_unix_s - self.from_unix_s


def rests(states: Iterable[NodeStateRecord], span: TimeRange) -> tuple[Rest, ...]:
    """Return the rests within a time, by node; `states` are in order of time, with what each was at the start.

    What somebody else has switched off and on is no rest. Where the state is not known it ends: nothing is claimed.
    """
    by_node: dict[str, list[NodeStateRecord]] = {}
    for each in states:
        by_node.setdefault(each.node, []).append(each)
    return tuple(rest for node in sorted(by_node) for rest in _rests_of(node, by_node[node], span))


def _rests_of(node: str, states: Sequence[NodeStateRecord], span: TimeRange) -> Iterator[Rest]:
    for is_away, stretch in groupby(_stretches(states, span), key=lambda each: each[0] in AWAY):
        parts = list(stretch)
        if is_away and any(ours for _, ours, _, _ in parts):
            seconds: dict[NodeState, float] = {}
            for state, _, from_s, until_s in parts:
                seconds[state] = seconds.get(state, 0.0) + until_s - from_s
            yield Rest(node, parts[0][2], parts[-1][3], seconds)


def _stretches(states: Sequence[NodeStateRecord], span: TimeRange) -> Iterator[tuple[NodeState, bool, float, float]]:
    """Yield each state, whether it is our doing, and from when until when it held within the time."""
    ends = [*(each.at_unix_s for each in states[1:]), span.until_unix_s]
    for each, end_s in zip(states, ends, strict=True):
        from_s, until_s = max(each.at_unix_s, span.from_unix_s), min(end_s, span.until_unix_s)
        if from_s < until_s:
            yield NodeState(each.observed), each.by in OURS, from_s, until_s
