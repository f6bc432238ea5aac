"""What each way of measuring says of a node in a time, and which of them is believed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.ledger.used import Used

WAYS = ("snmp", "dcmi", "redfish", "slurm", "rapl")
"""The ways of measuring whose parts add up to a node, from the outlet inwards. Of two that know the same share of the
time the first is taken, never both: they measure the same watts."""

J_PER_MWH, J_PER_KWH = 3.6e9, 3.6e6


@dataclass
class Sums:
    """What one way of measuring says of one node in one period, or all that is asked for of one group."""

    energy_j: float = 0.0
    cost: float = 0.0
    unpriced_j: float = 0.0
    carbon_g: float | None = None
    covered_s: float = 0.0
    most_s: float = 0.0
    series: set[int] = field(default_factory=set)

    def add(self, other: "Sums") -> None:
        """Take in what another part of the same says."""
        self.energy_j += other.energy_j
        self.cost += other.cost
        self.unpriced_j += other.unpriced_j
        self.covered_s += other.covered_s
        self.most_s += other.most_s
        self.series |= other.series
        if other.carbon_g is not None:
            self.carbon_g = (self.carbon_g or 0.0) + other.carbon_g

    @property
    def covered(self) -> float:
        """The share of the time of which it says something."""
        return self.covered_s / self.most_s if self.most_s else 0.0


def chosen(ways: Mapping[str, Sums], length_s: float) -> Sums:
    """Return what the way says that knows the most of so long a time; of equal ones the outermost."""
    for sums in ways.values():
        sums.most_s = length_s * len(sums.series)
    return ways[max(ways, key=lambda way: (round(ways[way].covered, 2), -WAYS.index(way)))]


def used(of: Iterable[str], sums: Sums, currency: str) -> Used:
    """Return the sums of a group as the answer; the cost is None where nothing of it has a price."""
    cost = sums.cost if currency and sums.unpriced_j < sums.energy_j else None
    return Used(
        tuple(of), sums.energy_j, cost, currency, sums.unpriced_j, sums.carbon_g, covered=min(1.0, sums.covered)
    )
