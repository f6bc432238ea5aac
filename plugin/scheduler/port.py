"""The port of every scheduler: what is read from it, and the few changes that it may be ordered to make.

All calls block until the scheduler has answered, within their time-outs: the agent makes them in threads. Reading
raises offpeak.errors.SchedulerError where the scheduler cannot answer. Only the door makes changes. A change to a node
is refused, or is done already, by the node's record, before the scheduler gets the order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from offpeak.model.orders import NodeChange
from plugin.scheduler.job import Job
from plugin.scheduler.node import Node, NodePower, Reservation


class Ranking(StrEnum):
    """How jobs are put in another order.

    VALUE: their priorities are set. OFFSET: something is added to them, which the scheduler's own changes leave alone.
    """

    VALUE = "value"
    OFFSET = "offset"


@dataclass(frozen=True)
class SchedulerView:
    """What a scheduler said at one instant (Unix seconds)."""

    at_s: int
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    reservations: tuple[Reservation, ...]


@dataclass(frozen=True)
class SchedulerTraits:
    """What the configuration of a scheduler of that `name` says: how it ranks, and what it can do on its `cluster`.

    `power_saving`: nodes can be powered down and are woken for jobs. `boot_s`: so long after that a node that has not
    come up counts as failed. `shared_nodes`: jobs may share a node. `problems`: what is wrong for us in there, each as
    message and hint. `reorder_method` says by which of its commands jobs change places, and how that is known.
    """

    name: str
    version: str
    ranking: Ranking
    power_saving: bool
    boot_s: int
    shared_nodes: bool
    problems: tuple[tuple[str, str], ...] = ()
    cluster: str = ""
    reorder_method: str = ""


class Scheduler(Protocol):
    """One scheduler. What changes something returns why it was not done, by job or node; {} if all was."""

    def traits(self) -> SchedulerTraits:
        """Return what its configuration says."""

    def view(self) -> SchedulerView:
        """Return all jobs, also those that have just ended, all nodes and all reservations."""

    def in_use(self, node: str) -> str:
        """Return why the node is not free, "" if it is: closed, and no job holds it. Asked directly before an order."""

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set each job's priority or offset, by `SchedulerTraits.ranking`; jobs that have gone are left out."""

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Let each job start at its second at the earliest, now where that is 0."""

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write for each job what its owner is to see of us; "" takes it away."""

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Tell the scheduler of these nodes."""


UP_STATES = (NodePower.UP, NodePower.UP_REQUESTED, NodePower.COMING_UP)


def change_refusal(name: str, known: Mapping[str, Node], change: NodeChange) -> str:
    """Return why a node is not changed, "" if it may be: all changes write over what somebody else has set."""
    node = known.get(name)
    if node is None:
        return "there is no such node"
    if node.closed and not node.closed_by_us:
        return f"was closed by {node.reason_by or 'somebody'}: {node.reason}"
    if node.failed and node.power is NodePower.UP and not node.closed and change is NodeChange.RESUME:
        return f"is down: {node.reason}"
    return ""


def is_change_done(node: Node, change: NodeChange) -> bool:
    """Whether the node is as the change would have it."""
    match change:
        case NodeChange.CLOSE:
            return node.closed
        case NodeChange.OPEN:
            return not node.closed
        case NodeChange.RESUME:
            return not node.failed
        case NodeChange.POWER_DOWN:
            return node.power is NodePower.DOWN and not node.failed
        case NodeChange.POWER_UP:
            return node.power in UP_STATES
