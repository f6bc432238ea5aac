"""A virtual node that lives by a clock: whoever looks sees it as it is now, and it hears what it is told."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from offpeak.model.node_class import Transition
from sim_backend.virtual import node_orders as orders
from sim_backend.virtual.node import VirtualNode, advance, is_powered, used

Clock = Callable[[], float]
"""Tells the seconds of a virtual room since it was opened."""


def clock_of(factor: float) -> Clock:
    """Return a clock that starts now at 0 and runs `factor` times as fast as real time."""
    start_s = time.monotonic()
    return lambda: (time.monotonic() - start_s) * factor


@dataclass
class LiveNode:
    """A node by its name. Transitions fail as often as its class says, by `chance`, or when `fail_next` is called."""

    name: str
    clock: Clock
    chance: random.Random
    node: VirtualNode
    _failing: bool = field(default=False, init=False)

    def now(self) -> VirtualNode:
        """Return the node as it is now."""
        self.node = advance(self.node, self.clock())
        return self.node

    @property
    def power_w(self) -> float:
        """What it draws now."""
        return self.now().power_w

    @property
    def energy_j(self) -> float:
        """What it has taken since it was made."""
        at_s = self.clock()
        self.node = advance(self.node, at_s)
        return self.node.energy_at(at_s)

    @property
    def powered(self) -> bool:
        """Whether its main power is on."""
        return is_powered(self.now())

    def fail_next(self) -> None:
        """Let the next transition fail: the node hangs at its end."""
        self._failing = True

    def use(self, utilisation: float) -> None:
        """Let it work, 0..1."""
        self.node = used(self.node, utilisation, self.clock())

    def on(self) -> None:
        """Switch it on."""
        self.node = orders.told_on(self.node, self.clock(), self._fate)

    def soft_off(self) -> None:
        """Ask its system to shut down."""
        self.node = orders.told_soft_off(self.node, self.clock(), self._fate)

    def suspend(self) -> None:
        """Suspend it to memory; NotSupported if its class has no standby."""
        self.node = orders.told_suspend(self.node, self.clock(), self._fate)

    def hard_off(self) -> None:
        """Cut its power."""
        self.node = orders.told_hard_off(self.node, self.clock())

    def reset(self) -> None:
        """Let it boot anew."""
        self.node = orders.told_reset(self.node, self.clock(), self._fate)

    def _fate(self, transition: Transition) -> bool:
        fails = self._failing or self.chance.random() < transition.failure_probability
        self._failing = False
        return fails
