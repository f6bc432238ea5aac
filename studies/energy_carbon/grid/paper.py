"""The paper's figures on federations: Tables II, III and IX, and what is said of the simulations in the text."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """A column of Table III; `mix` is in per cent of energy by source."""

    name: str
    nodes: int
    mix: Mapping[str, float]
    pue: float


CLUSTERS = (
    Cluster("cluster 1", 30, {"coal": 50, "hydro": 20, "nuclear": 30}, 1.5),
    Cluster("cluster 2", 40, {"coal": 80, "oil": 20}, 1.8),
    Cluster("cluster 3", 50, {"oil": 20, "hydro": 40, "nuclear": 40}, 1.3),
)

AWARE_SAVED_PCT = (22, 35)
"""Energy, energy-aware schedulers with round-robin against normal ones with round-robin: Figure 5."""
AWARE_CHOSEN_SAVED_PCT = (25, 38)
"""The same with FP or ECA."""
FASTEST_SAVED_PCT = (17, 30)
"""Energy, FP against round-robin with the same normal scheduler: Figure 6."""
CO2_SAVED_PCT = (37, 45)
"""CO2, ECA with energy-aware schedulers against round-robin with normal ones: Figure 12."""


@dataclass(frozen=True)
class Part:
    """What Table IX has of one cluster in one run."""

    energy_kj: float
    jobs: int
    elapsed_s: float
    power_w: float
    utilization_pct: int


@dataclass(frozen=True)
class Column:
    """A column of Table IX: Juggle, Jufit and Dune, in this order, and the emissions of all [kg]."""

    juggle: Part
    jufit: Part
    dune: Part
    co2_kg: float

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """All three."""
        return self.juggle, self.jufit, self.dune

    @property
    def energy_kj(self) -> float:
        """Of all three together."""
        return float(sum(part.energy_kj for part in self.parts))


TABLE_IX = {
    "ECA, 3600 s": Column(
        Part(4668, 16, 2979, 1567, 66), Part(961, 57, 2940, 327, 65), Part(1442, 62, 3163, 456, 82), 1.42
    ),
    "ECA, 10800 s": Column(
        Part(1916, 5, 1245, 1540, 56), Part(767, 25, 2536, 304, 49), Part(2163, 106, 4721, 458, 97), 0.86
    ),
    "FP": Column(Part(3705, 11, 2434, 1522, 46), Part(1051, 61, 3213, 327, 93), Part(1426, 63, 3211, 444, 88), 1.31),
    "RR": Column(Part(12893, 43, 8181, 1576, 81), Part(962, 45, 2838, 339, 45), Part(1029, 47, 2839, 430, 79), 3.62),
}
LATEST_S = {"ECA, 3600 s": 3600, "ECA, 10800 s": 10_800, "FP": None, "RR": None}


@dataclass(frozen=True)
class Testbed:
    """A cluster of the federated testbed: nodes, cores and highest draw of one, PUE, CUE [kg/kWh], LINPACK's rank."""

    name: str
    nodes: int
    cores: int
    node_w: float
    pue: float
    cue: float
    rank: int

    __test__ = False  # pytest takes a class of this name for one of its own


TESTBEDS = (
    Testbed("juggle", 12, 4, 230.0, 1.4, 0.8, 1),
    Testbed("jufit", 2, 12, 232.0, 1.4, 0.8, 10),
    Testbed("dune", 4, 8, 170.0, 1.2, 0.43, 4),
)
TESTBED_JOBS = 135
