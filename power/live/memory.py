"""What the power loop hands from one cycle to the next. Lost, nothing but patience is lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from plugin.capacity.need import NeedRecord
from plugin.capacity.port import CapacityTargets
from power.drivers.port import Order


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node that is on its way to sleep: since when (Unix seconds), by which order, and why."""

    since_s: int
    order: Order
    why: str


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What is known of a node besides what is seen; times are Unix seconds.

    `up`: jobs could run there a cycle ago. `woken_s`: when it came up last, 0 where nobody knows. `slept_s`: when it
    fell asleep within the last day, and before that the last time. `rest_until_s`: until then it is not put to sleep,
    since the last try was refused or failed. `why` was said of it last.
    """

    up: bool
    idle_since_s: int
    woken_s: int = 0
    slept_s: tuple[int, ...] = ()
    leaving: Leaving | None = None
    rest_until_s: int = 0
    why: str = ""


@dataclass(frozen=True)
class PoolMemory:
    """What a policy, by its name, decided for a pool and when, and what a forecast has learned."""

    policy: str
    decided_s: int
    targets: CapacityTargets
    needs: NeedRecord | None = None


@dataclass(frozen=True)
class PowerMemory:
    """Nodes by their names, pools by theirs."""

    nodes: Mapping[str, NodeMemory] = field(default_factory=dict)
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
