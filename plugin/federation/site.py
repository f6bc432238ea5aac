"""A cluster of the federation, as its file describes it, and the links between clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.facility import Facility
from offpeak.model.node_class import NodeClass
from offpeak.prices.tariff import Tariff
from plugin.federation.reach import Reach


@dataclass(frozen=True, eq=False)
class SiteRoom:
    """A site's machine room: its cooling, the outside temperature [degrees C], and what an idle unit draws [W]."""

    facility: Facility
    outside_c: float
    idle_w: float


@dataclass(frozen=True)
class Site:
    """A cluster that allocates `units` (nodes or cores) of `cores_per_unit` cores, each unit drawing `unit_w` in use.

    `core_gflops` is its speed under Linpack per core. Electricity is by `price_zone` (a market) or `tariff`; what it
    emits is `esc_g_per_kwh` (a fixed mix) or that of `carbon_zone` (a live series). `ranks` says how fast applications
    run here, higher is faster. `max_per_cycle` is how many jobs it takes in one scheduling cycle, and `allocations` the
    core-hours that projects may use since `allocations_since_s` [Unix s], None for ever; None in the former two is no
    bound, and a site with allocations runs only their projects.
    A site without `reach` is known to simulations only. Of one with a `room` the PUE is that at its load, and `pue`
    that of all units in use.
    """

    name: str
    units: int
    unit_w: float
    cores_per_unit: int = 1
    core_gflops: float = 1.0
    pue: float = 1.0
    room: SiteRoom | None = None
    zone: tzinfo = UTC
    node_class: NodeClass | None = None
    largest_job_cores: int | None = None
    longest_job_s: int | None = None
    features: frozenset[str] = frozenset()
    ranks: Mapping[str, float] = field(default_factory=dict)
    price_zone: str | None = None
    tariff: Tariff | None = None
    esc_g_per_kwh: float | None = None
    carbon_zone: str | None = None
    max_per_cycle: int | None = None
    allocations: Mapping[str, float] | None = None
    allocations_since_s: int | None = None
    reach: Reach | None = None

    @property
    def cores(self) -> int:
        """All of its cores."""
        return self.units * self.cores_per_unit

    def pue_at(self, busy_units: Float64 | Int64) -> Float64:
        """Return the PUE while so many units are in use."""
        if self.room is None:
            return np.full(np.shape(busy_units), self.pue)
        it_w = self.unit_w * busy_units + self.room.idle_w * (self.units - busy_units)
        return self.room.facility.pue_at(it_w, np.full(np.shape(busy_units), self.room.outside_c))

    @property
    def cue_g_per_kwh(self) -> float | None:
        """CO2 per kWh of computing: ESC x PUE (Majanen et al., equation 2); None where the carbon series is live."""
        return None if self.esc_g_per_kwh is None else self.esc_g_per_kwh * self.pue


@dataclass(frozen=True)
class Link:
    """The way that data takes between two sites, the same in both directions."""

    between: tuple[str, str]
    latency_s: float
    bandwidth_mb_per_s: float
