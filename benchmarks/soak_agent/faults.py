"""What else breaks: a BMC hangs for a while, Slurm's controller is killed and started again."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

FREEZES, FROZEN_S = 0.25, (0.5, 4.0)
"""So often with a kill a BMC begins to hang, and for how long."""
CONTROLLER_DEAD_S = (0.2, 1.5)


@dataclass
class Faults:
    """`counts` are of those so far."""

    cluster: Any
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    _thaws_s: dict[str, float] = field(default_factory=dict)

    def go_on(self) -> None:
        """Let BMCs go on whose time has come."""
        for name in [name for name, at_s in self._thaws_s.items() if at_s <= time.monotonic()]:
            self._thaw(name)

    def fall_ill(self) -> None:
        """Let a BMC hang, or not."""
        if self.chance.random() < FREEZES:
            self._freeze(self.chance.choice(list(self.cluster.nodes)))

    def end(self) -> None:
        """Let everything be well."""
        for name in list(self._thaws_s):
            self._thaw(name)

    def kill_controller(self) -> None:
        """Kill Slurm's controller, and start it again. What it did in the last seconds it has forgotten then."""
        self.cluster.kill9_server()
        time.sleep(self.chance.uniform(*CONTROLLER_DEAD_S))
        self.cluster.start_server()
        self.counts["controller killed"] += 1

    def _freeze(self, name: str) -> None:
        if name not in self._thaws_s:
            self.cluster.nodes[name].bmc.freeze()
            self._thaws_s[name] = time.monotonic() + self.chance.uniform(*FROZEN_S)
            self.counts["BMC hangs"] += 1

    def _thaw(self, name: str) -> None:
        del self._thaws_s[name]
        self.cluster.nodes[name].bmc.thaw()
