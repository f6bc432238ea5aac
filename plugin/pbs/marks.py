"""What we leave behind at a node in PBS: since when it is closed by us, asleep or woken. And what follows from it.

PBS knows no powered-down node that is woken for a job. So a sleeping node is one that gets no jobs and carries our
mark, and a waking one is what the agent has asked for.
"""

from enum import StrEnum
from typing import NamedTuple

from plugin.scheduler.node import NodePower


class Kind(StrEnum):
    """CLOSED: it gets no jobs. ASLEEP: it is off, and may be woken. WAKES: it was told to come up."""

    CLOSED = "closed"
    ASLEEP = "asleep"
    WAKES = "wakes"


class Mark(NamedTuple):
    """Our mark at a node, and when it was set [Unix s]."""

    kind: Kind
    since_s: int


class Standing(NamedTuple):
    """What a node's words and our mark say together, as in plugin.scheduler.node.Node."""

    power: NodePower
    closed: bool
    failed: bool


def standing(mark: Mark | None, *, shut: bool, down: bool, heard: bool, late: bool) -> Standing:
    """Return how a node stands. `shut`: it gets no jobs. `down`: its daemon does not answer, `heard`: it has, since.

    `late`: the mark is older than a boot takes. A mark at a node that is open says nothing.
    """
    if mark is None or not shut or mark.kind is Kind.CLOSED:
        return Standing(NodePower.UP, closed=shut, failed=down)
    if mark.kind is Kind.ASLEEP:
        return Standing(NodePower.DOWN, closed=False, failed=False)
    if heard and not down:
        return Standing(NodePower.UP, closed=True, failed=False)
    if late:
        return Standing(NodePower.DOWN, closed=False, failed=True)
    return Standing(NodePower.COMING_UP, closed=False, failed=False)
