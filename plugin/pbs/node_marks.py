"""Our mark at a PBS node: since when it is closed by us, asleep or waking, and the state that follows from it.

PBS knows no powered-down node that is woken for a job. So a sleeping node is one that gets no jobs and has our mark,
and a waking node is one that the agent has ordered to wake. OpenPBS keeps the mark in a custom resource, Torque in the
node's note, which admins read too.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from plugin.scheduler.node import OURS, NodePower


class MarkKind(StrEnum):
    """CLOSED: it gets no jobs. ASLEEP: it is off, and may be woken. WAKES: it was told to come up."""

    CLOSED = "closed"
    ASLEEP = "asleep"
    WAKES = "wakes"


class NodeMark(NamedTuple):
    """Our mark at a node, and when it was set [Unix s]."""

    kind: MarkKind
    since_s: int


class PbsNodeState(NamedTuple):
    """What a node's words and our mark say together, as in plugin.scheduler.node.Node."""

    power: NodePower
    closed: bool
    failed: bool


def derive_node_state(mark: NodeMark | None, *, shut: bool, down: bool, heard: bool, late: bool) -> PbsNodeState:
    """Return how a node stands. `shut`: it gets no jobs. `down`: its daemon does not answer, `heard`: it has, since.

    `late`: the mark is older than a boot takes. A mark at a node that is open says nothing.
    """
    if mark is None or not shut or mark.kind is MarkKind.CLOSED:
        return PbsNodeState(NodePower.UP, closed=shut, failed=down)
    if mark.kind is MarkKind.ASLEEP:
        return PbsNodeState(NodePower.DOWN, closed=False, failed=False)
    if heard and not down:
        return PbsNodeState(NodePower.UP, closed=True, failed=False)
    if late:
        return PbsNodeState(NodePower.DOWN, closed=False, failed=True)
    return PbsNodeState(NodePower.COMING_UP, closed=False, failed=False)


_MARK = re.compile(rf"({'|'.join(MarkKind)})\.(\d+)")


def format_openpbs_mark(mark: NodeMark) -> str:
    """Return the mark as the resource's value."""
    return f"{mark.kind}.{mark.since_s}"


def parse_openpbs_mark(value: str) -> NodeMark | None:
    """Return the mark that a value is, None for none."""
    match = _MARK.fullmatch(value)
    return NodeMark(MarkKind(match[1]), int(match[2])) if match else None


_NOTE = re.compile(rf"{OURS}: (asleep|wakes) since (\d+)")


def format_torque_note(mark: NodeMark) -> str:
    """Return the note of a node that is asleep or wakes."""
    return f"{OURS}: {mark.kind} since {mark.since_s}"


def parse_torque_note(note: str) -> NodeMark | None:
    """Return our mark in a note, None if it is not ours: the server may add errors behind it."""
    if match := _NOTE.match(note):
        return NodeMark(MarkKind(match[1]), int(match[2]))
    return NodeMark(MarkKind.CLOSED, 0) if note == OURS or note.startswith(f"{OURS}:") else None
