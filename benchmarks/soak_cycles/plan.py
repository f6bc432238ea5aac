"""What a soak of cycles is of: how many BMCs and cycles, and what an admin would allow the agent there."""

from dataclasses import dataclass

from offpeak.machines.inventory import SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.settings.agent import AgentSettings

RACKS = 4
NODE_CLASS = "server"
SLEEP_METHODS = (SleepMethod(NodeOrder.SOFT_OFF, ("bmc",), enter_timeout_s=600, wake_timeout_s=900),)
STEPS_S = (20.0, 500.0)
"""Between two sweeps either passes in the room: the limits of a minute count over some sweeps, those of a day too."""


@dataclass(frozen=True)
class CyclesPlan:
    """A node has cycled when it was told to go down, did so, was told to come up, and has."""

    bmcs: int = 64
    cycles: int = 10_000
    seed: int = 1
    timeout_s: float = 0.3

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes by name."""
        return tuple(f"n{number}" for number in range(1, self.bmcs + 1))

    @property
    def most_ill(self) -> int:
        """So many BMCs are ill at the same time at most."""
        return max(1, self.bmcs // 10)

    @property
    def most_sweeps(self) -> int:
        """After so many the soak ends, however few cycles there were."""
        return 60 + 30 * self.cycles // self.bmcs

    def rack_of(self, node: str) -> str:
        """Return the rack of a node."""
        return f"r{self.nodes.index(node) * RACKS // self.bmcs}"

    def settings(self, mode: str) -> AgentSettings:
        """Return limits for so many nodes that are put to sleep thirty times a day instead of three."""
        return AgentSettings(
            mode=mode,
            nodes=",".join(self.nodes),
            nodes_per_sweep=max(2, self.bmcs * 3 // 16),
            nodes_per_hour=max(4, self.bmcs * 3 // 2),
            wakes_per_min=max(12, 2 * self.bmcs),
            rack_nodes_per_min=max(2, self.bmcs // 10),
            sleep_ramp_w=200.0 * max(2, self.bmcs // 4),
            wake_ramp_w=300.0 * max(2, self.bmcs // 4),
            cycles_per_day=40,
            min_on=max(1, self.bmcs // 8),
        )
