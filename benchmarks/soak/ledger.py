"""The integrated energy, and the true energy of the nodes while their power was known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.soak.truth import Truth
from offpeak.power.meters.energy import Energy, Part, add_readings
from offpeak.power.meters.port import MeterResult

PEAK_W = 700.0
"""No order changes a node's power by more."""


@dataclass
class EnergyLedger:
    """Sums of both, node by node as their BMCs tell; a value holds for one step, what is longer is a gap."""

    step_s: float
    sums: Mapping[Part, Energy] = field(default_factory=dict)
    true_j: dict[str, float] = field(default_factory=dict)
    _known: dict[str, float] = field(default_factory=dict)

    def pass_to(self, truth: Truth) -> None:
        """Add the true energy since the last readings, for nodes whose power was read then."""
        for node, before_j in self._known.items():
            self.true_j[node] = self.true_j.get(node, 0.0) + truth.nodes[node].energy_j - before_j
        self._known = {}

    def read(self, taken: Iterable[MeterResult], truth: Truth) -> None:
        """Count the readings."""
        taken = tuple(taken)
        self.sums = add_readings(self.sums, taken, longest_hold_s=self.step_s)
        meters = (
            result.meter for result in taken if result.way == "dcmi" and result.readings and result.readings[0].power_w
        )
        self._known = {node: truth.nodes[node].energy_j for node in meters}

    def worst(self, orders: Mapping[str, int]) -> float:
        """Return how much of its bound the worst node uses: rounding, and one step at peak for each order given."""
        return max((self._used(node, orders.get(node, 0)) for node in self.true_j), default=0.0)

    @property
    def off_percent(self) -> float:
        """How far all integrated energy is off the true one."""
        booked_j = sum(self._energy(node).energy_j for node in self.true_j)
        true_j = sum(self.true_j.values())
        return 100 * abs(booked_j - true_j) / true_j if true_j else 0.0

    def _used(self, node: str, orders: int) -> float:
        energy = self._energy(node)
        bound_j = energy.rounding_j + orders * self.step_s * PEAK_W
        return abs(energy.energy_j - self.true_j[node]) / bound_j

    def _energy(self, node: str) -> Energy:
        return self.sums[node, "dcmi", "total", node]
