"""A node of the simulated scheduler."""

from dataclasses import dataclass, field

from plugin.scheduler.node import NodePower


@dataclass
class SimNode:
    """`alive`: its daemon answers, since or until `changed_s`. `shut` are words for why it gets no new job.

    `shown_up`: its daemon does not answer, and the server shows it as up all the same.
    `dead`: it has lost its power, and the server has not noticed: a job that starts there is lost.
    `power` is what the scheduler thinks of it. `note` and `mark` are what was written at it. `told` is what its daemon
    was told to do with its power, "" for nothing. A node with a `queue` runs the jobs of that one only.
    """

    name: str
    cpus: int
    memory_mib: int = 32_768
    features: tuple[str, ...] = ()
    queue: str = ""
    alive: bool = True
    shown_up: bool = False
    dead: bool = False
    changed_s: int = 0
    shut: set[str] = field(default_factory=set)
    power: NodePower = NodePower.UP
    power_s: int = 0
    reason_s: int = 0
    note: str = ""
    mark: str = ""
    told: str = ""
    used: dict[str, int] = field(default_factory=dict)
    last_used_s: int = 0

    @property
    def cpus_used(self) -> int:
        """How many processors jobs have."""
        return sum(self.used.values())
