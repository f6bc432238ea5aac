"""A node as a scheduler tells of it, in words that hold for all schedulers."""

from enum import StrEnum
from typing import NamedTuple

OURS = "offpeak"
"""What a reason begins with for which we have closed a node to jobs."""


class NodeUse(StrEnum):
    """Whether jobs hold it. COMPLETING counts as used. UNKNOWN means hands off."""

    FREE = "free"
    USED = "used"
    UNKNOWN = "unknown"


class NodePower(StrEnum):
    """What the scheduler thinks of its power. ASKED_DOWN: it goes down as soon as its jobs have ended."""

    UP = "up"
    ASKED_DOWN = "asked down"
    GOING_DOWN = "going down"
    DOWN = "powered down"
    ASKED_UP = "asked up"
    COMING_UP = "coming up"


class Node(NamedTuple):
    """One node; times are Unix seconds, None where there is none.

    `state_word` is the scheduler's own word. `closed`: no new job gets it (drained), for `reason`, by `reason_by`,
    since `reason_s`. `failed`: it counts as broken (down, failing). `responds`: its daemon answers. `reserved`: a
    reservation or a maintenance holds it now. `planned`: the scheduler keeps it for a job that is to start.
    `idle_since_s` is when its last job ended, where the scheduler tells.
    """

    name: str
    state_word: str
    use: NodeUse
    power: NodePower
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

    @property
    def closed_by_us(self) -> bool:
        """Whether the reason for which it is closed is ours."""
        return self.closed and (self.reason == OURS or self.reason.startswith(f"{OURS}:"))


class Reservation(NamedTuple):
    """Nodes kept for somebody from `start_s` to `end_s`; `maintenance`: nobody is to touch them."""

    name: str
    start_s: int
    end_s: int
    nodes: tuple[str, ...]
    maintenance: bool
