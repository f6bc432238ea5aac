"""Which devices are ill in which sweep: drawn by chance from a seed, never more than a tenth of either kind."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.soak.plan import SoakPlan

DEAD = "n1"
"""This BMC is silent all the time."""
OF_BMCS = ("silent", "slow", "late", "garbage", "exchanged", "drops orders", "forgets sessions")
OF_PDUS = ("silent", "restarts", "says -1", "counters reset")
MOMENTARY = ("forgets sessions", "counters reset")
NEW = 0.7
"""So often one more of a kind falls ill, while there may be one more."""
LONGEST_SWEEPS = 12

Faults = Mapping[str, str]
"""What is wrong with a device, by its name; only of those with which something is."""


@dataclass
class _Ward:
    """The ill devices of one kind, with the last sweep of their illness."""

    devices: Sequence[str]
    kinds: Sequence[str]
    most: int
    ill: dict[str, tuple[str, int]] = field(default_factory=dict)

    def after(self, sweep: int, chance: random.Random) -> dict[str, str]:
        """Return the faults by device in a sweep; low numbers fail more often, like weak devices."""
        self.ill = {name: (fault, last) for name, (fault, last) in self.ill.items() if last >= sweep}
        name = self.devices[int(len(self.devices) * chance.random() ** 2)]
        if chance.random() < NEW and name not in self.ill and len(self.ill) < self.most:
            fault = chance.choice(self.kinds)
            sweeps = 1 if fault in MOMENTARY else chance.randint(1, LONGEST_SWEEPS)
            self.ill[name] = fault, sweep + sweeps - 1
        return {name: fault for name, (fault, _) in self.ill.items()}


def faults_of(plan: SoakPlan) -> Iterator[Faults]:
    """Yield the faults of each sweep."""
    chance = random.Random(plan.seed)
    well = [name for name in plan.bmc_hosts if name != DEAD]
    bmcs = _Ward(well, OF_BMCS, max(1, plan.bmcs // 10 - 1))
    pdus = _Ward(list(plan.pdu_hosts), OF_PDUS, max(1, plan.pdus // 10))
    for sweep in range(plan.sweeps):
        yield {DEAD: "silent"} | bmcs.after(sweep, chance) | pdus.after(sweep, chance)
