"""The port of every scheduler: the view that is read, and the few changes that may be ordered.

All calls block until the scheduler has answered, within their time-outs: the agent makes them in threads. Reading
raises offpeak.errors.SchedulerError where the scheduler does not answer. Only the door makes changes. Each node is read
before its change: a change that is refused or already done is not sent to the scheduler.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from offpeak.errors import SchedulerError
from offpeak.model.cluster import NO_TIMING, Partition, SchedulerTiming
from offpeak.model.limits import SiteLimits
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.contract.rules import NO_CONTRACT, Contract
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node, Reservation

START_MARGIN_S, START_CYCLES = 60, 1.5
"""A scheduler starts a job in one of its next cycles. The margin is for the duration of a cycle and our readings."""

NodeUses = Mapping[str, str | SchedulerError]
"""Why each node is not free, "" if it is, and the error if that is unknown."""

FindUses = Callable[[Sequence[str]], NodeUses]

UP_STATES = (PowerState.ON, PowerState.ON_REQUESTED, PowerState.POWERING_ON)


class Ranking(StrEnum):
    """How the order of jobs is changed.

    VALUE: priorities are set. OFFSET: a value is added to priorities, which the scheduler's own changes preserve; no
    priority is shown below 1. TERM: the same, and the scheduler shows all priorities as they are, also below 1.
    """

    VALUE = "value"
    OFFSET = "offset"
    TERM = "term"


class SchedulerLoad(NamedTuple):
    """How busy a scheduler is; None for what it does not tell.

    `latency_s` is the time of a small request, `threads` how many requests it works on, `backlog` how many messages to
    nodes wait. `requests` and `busy_s` are those of this process's user since the scheduler's counters began: also of
    other programs if `user` is its name, as root's are.
    """

    latency_s: float = 0.0
    threads: int | None = None
    backlog: int | None = None
    requests: int | None = None
    busy_s: float | None = None
    user: str = ""


NO_LOAD = SchedulerLoad()


@dataclass(frozen=True)
class SchedulerView:
    """All jobs, nodes and reservations of a scheduler at one instant (Unix seconds), and its load then.

    `order_problem` is why the rights of jobs are not known, or are those of an earlier instant; "" if they are known.
    """

    at_s: int
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    reservations: tuple[Reservation, ...]
    load: SchedulerLoad = NO_LOAD
    order_problem: str = ""


def start_patience_s(cycle_s: int) -> int:
    """Return after what time a job, for which nodes are up, waits for something other than nodes.

    `cycle_s` is the longest time between two cycles of its scheduler.
    """
    return START_MARGIN_S + math.ceil(START_CYCLES * cycle_s)


@dataclass(frozen=True)
class SchedulerTraits:
    """The configuration of the scheduler `name` on its `cluster`, as far as it matters to offpeak.

    `power_saving`: nodes can be powered down and are woken for jobs. `boot_s`: a node that has not come up after this
    time counts as failed. `shared_nodes`: jobs may share a node. `contract` is what its configuration promises, and has
    the rules for it. `reorder_method` is the command that changes the order of jobs, and the reason for it.
    `partitions`, `timing` and `limits` are known for Slurm. `requests_per_s` is how many it takes of this user, None
    without a limit.
    `cycle_s` is the longest time between two scheduling cycles, 0 where they follow each event at once.
    `needs_cycles`: no cycle begins when a node comes up, or when the time of a deferred job comes.
    `power_terms` name its version, the start of its acting daemon and its settings of power saving: a cycle of a node
    proves its part in power saving for as long as they are the same. None if it has no such part.
    """

    name: str
    version: str
    ranking: Ranking
    power_saving: bool
    boot_s: int
    shared_nodes: bool
    contract: Contract = NO_CONTRACT
    cluster: str = ""
    reorder_method: str = ""
    partitions: tuple[Partition, ...] = ()
    timing: SchedulerTiming = NO_TIMING
    limits: SiteLimits = field(default_factory=SiteLimits)
    requests_per_s: float | None = None
    cycle_s: int = 0
    needs_cycles: bool = False
    power_terms: str | None = None


class RequeuePermit(NamedTuple):
    """Whether a running batch job may be requeued now, what commands call it, and how often it was started again."""

    allowed: bool
    name: str
    restarts: int


def use_of(node: str, uses: NodeUses) -> str:
    """Return why the node is not free, "" if it is. Raises the error if that is unknown."""
    use = uses[node]
    if isinstance(use, SchedulerError):
        raise use
    return use


class Scheduler(Protocol):
    """One scheduler. A method that changes something returns why not, by job or node; {} after all changes."""

    @property
    def changes_lists(self) -> bool:
        """Whether one command changes all nodes of a list."""

    def traits(self) -> SchedulerTraits:
        """Return its configuration."""

    def view(self) -> SchedulerView:
        """Return all jobs, also those that have just ended, all nodes and all reservations."""

    def find_uses(self, nodes: Sequence[str]) -> NodeUses:
        """Return why each node is not free, "" if it is: closed, and no job holds it. Called just before an order.

        Raises if that is unknown of all of them.
        """

    def rank(self, values: Mapping[str, int]) -> dict[str, str]:
        """Set each job's priority or offset, by `SchedulerTraits.ranking`; jobs that have ended are left out."""

    def defer(self, begin_s: Mapping[str, int]) -> dict[str, str]:
        """Set the earliest start of each job [Unix s], 0 for now."""

    def notify(self, comments: Mapping[str, str]) -> dict[str, str]:
        """Write the notice that each job's owner sees; "" removes it."""

    def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return what it shows of each of these running jobs, nothing of others and of interactive ones."""

    def signal(self, signals: Mapping[str, str]) -> dict[str, str]:
        """Send each job, as RequeuePermit names it, its signal, such as USR1."""

    def requeue(self, names: Sequence[str]) -> dict[str, str]:
        """Put each running job back into the queue, if that is permitted; it begins anew."""

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        """Start a scheduling cycle for these jobs if `SchedulerTraits.needs_cycles`, unless an admin has stopped it."""

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        """Order the change of these nodes. Raises ListRefused if it may succeed for some of them alone."""


def in_use(scheduler: Scheduler, node: str) -> str:
    """Return why the node is not free, "" if it is. Raises if that is unknown."""
    return use_of(node, scheduler.find_uses((node,)))


def change_refusal(name: str, known: Mapping[str, Node], change: NodeChange) -> str:
    """Return why a node is not changed, "" if it may be: a change would overwrite what an admin has set."""
    node = known.get(name)
    if node is None:
        return "there is no such node"
    if node.closed and not node.closed_by_us:
        return f"was closed by {node.reason_by or 'another user'}: {node.reason}"
    if node.failed and node.power is PowerState.ON and not node.closed and change is NodeChange.RESUME:
        return f"is down: {node.reason}"
    return ""


def is_change_done(node: Node, change: NodeChange) -> bool:
    """Whether the node already has the state that the change leads to."""
    match change:
        case NodeChange.CLOSE | NodeChange.WITHDRAW:
            return node.closed
        case NodeChange.OPEN:
            return not node.closed and not (node.is_marked and node.power is PowerState.ON)
        case NodeChange.RESUME:
            return not node.failed
        case NodeChange.POWER_DOWN:
            return node.power is PowerState.OFF and not node.failed
        case NodeChange.POWER_UP:
            return node.power in UP_STATES
