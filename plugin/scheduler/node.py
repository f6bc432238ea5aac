"""A node as a scheduler reports it, in terms that hold for all schedulers."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from offpeak.model.orders import PowerState

OFFPEAK = "offpeak"
"""The prefix of the reason of a node that offpeak has closed to jobs."""

COMING_UP = frozenset({PowerState.ON_REQUESTED, PowerState.POWERING_ON})


class NodeUse(StrEnum):
    """Whether jobs hold a node. A completing job counts. A node in UNKNOWN use is not touched."""

    FREE = "free"
    USED = "used"
    UNKNOWN = "unknown"


class SchedulerState(StrEnum):
    """A node as the scheduler sees it, in one word for the power decision.

    UP: jobs may start there at any time. BUSY: a job holds it. DRAINED: no new job gets it. BOOTS: the scheduler waits
    for it to come up. DOWN: it is powered down, or does not answer.
    """

    UP = "up"
    BUSY = "busy"
    DRAINED = "drained"
    BOOTS = "boots"
    DOWN = "down"


class Node(NamedTuple):
    """One node; times are Unix seconds, None if there is none.

    `native_state` is in the scheduler's own terms. `closed`: no new job gets it (drained), for `reason`, by
    `reason_by`, since `reason_s`. `failed`: it counts as broken (down, failing). `responds`: its daemon answers.
    `reserved`: a reservation or a maintenance holds it now. `planned`: the scheduler keeps it for a job. `idle_since_s`
    is the end of its last job, if the scheduler reports that. `gpus` are types ("" if not named) with counts. After
    `suspend_s` of idleness the scheduler itself puts it to sleep, infinite for never; None if it does not report that.
    """

    name: str
    native_state: str
    use: NodeUse
    power: PowerState
    closed: bool
    failed: bool
    responds: bool
    reserved: bool
    planned: bool
    reason: str
    reason_by: str
    reason_s: int | None
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cpus: int
    cpus_used: int
    memory_mib: int
    boot_s: int | None
    idle_since_s: int | None
    comment: str = ""
    gpus: tuple[tuple[str, int], ...] = ()
    suspend_s: float | None = None

    @property
    def closed_by_us(self) -> bool:
        """Whether offpeak has closed it."""
        return self.closed and self.is_marked

    @property
    def is_marked(self) -> bool:
        """Whether its reason is offpeak's."""
        return self.reason == OFFPEAK or self.reason.startswith(f"{OFFPEAK}:")

    @property
    def is_awaited(self) -> bool:
        """Whether the scheduler waits for it to come up: for a job, or because an admin requested that."""
        return self.power in COMING_UP or (self.power is PowerState.OFF and self.use is NodeUse.USED)

    @property
    def scheduler_state(self) -> SchedulerState | None:
        """The node in one word, None if the scheduler does not know whether jobs hold it.

        A job on a node that is powered down waits for it to boot: nothing runs there, and it must be woken.
        """
        if self.use is NodeUse.UNKNOWN:
            return None
        if self.is_awaited:
            return SchedulerState.BOOTS
        if self.use is NodeUse.USED:
            return SchedulerState.BUSY
        if self.power in (PowerState.OFF, PowerState.POWERING_OFF) or self.failed or not self.responds:
            return SchedulerState.DOWN
        if self.closed or self.power is PowerState.OFF_REQUESTED:
            return SchedulerState.DRAINED
        return SchedulerState.UP


def scheduler_states(nodes: Iterable[Node]) -> dict[str, SchedulerState]:
    """Return the state of each node whose state is known."""
    found = ((node.name, node.scheduler_state) for node in nodes)
    return {name: state for name, state in found if state is not None}


class Reservation(NamedTuple):
    """Nodes that are reserved from `start_s` to `end_s`; nodes in `maintenance` are not touched."""

    name: str
    start_s: int
    end_s: int
    nodes: tuple[str, ...]
    maintenance: bool
