"""The sites of the federation: each cluster, how a broker reaches it, its electricity, the links, and the grid of all.

The grid's columns have one number per site. Integrals of prices and emissions give the cost or emission of stretches
of time per watt, for whole columns of stretches at once.

Source of the emissions: Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing", Table I
and equations (2) and (3); the table has kg CO2 per kWh.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput, BadPrices
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.facility import Facility
from offpeak.model.node_class import NodeClass
from offpeak.model.snapshot import NEVER
from offpeak.model.step_series import IntegralCurve, Series, running_integral
from offpeak.prices.tariff import Tariff, tariff_series
from offpeak.text import did_you_mean

LOCAL, SLURM, SSH = "local", "slurm", "ssh"
SSH_PORT = 22
REACH_EXAMPLES = '"local", "slurm -M NAME", "ssh USER@HOST" or "ssh USER@HOST:PORT"'

_CLUSTER = re.compile(r"slurm -M ([A-Za-z0-9][\w.-]*)")
_LOGIN = re.compile(r"ssh ([A-Za-z_][\w.-]*)@([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")

UNKNOWN = -1
MOST_FEATURES = 64

EMISSIONS_G_PER_KWH = {
    "closed-cycle-gas": 360.0,
    "coal": 910.0,
    "france-interconnector": 83.0,
    "ireland-interconnector": 699.0,
    "hydro": 0.0,
    "nuclear": 16.1,
    "open-cycle-gas": 479.0,
    "oil": 610.0,
    "pumped-storage": 0.0,
    "other": 610.0,
}
WHOLE_PERCENT = 100.0

CENTURY_S = 36_525.0 * DAY_S


@dataclass(frozen=True)
class Reach:
    """`way` is LOCAL, SLURM (another `cluster` of the same slurmdbd) or SSH (as `user` at `host` and `port`).

    `submit` is sbatch or qsub. `agent` is the socket of the site's agent or an address, "" for the usual one: over ssh,
    `offpeak snapshot` is run there. `key_file` and `known_hosts` are those of ssh, `secret_file` of signed snapshots.
    """

    way: str
    submit: str = "sbatch"
    cluster: str = ""
    user: str = ""
    host: str = ""
    port: int = SSH_PORT
    agent: str = ""
    key_file: Path | None = None
    known_hosts: Path | None = None
    secret_file: Path | None = None

    @property
    def by_http(self) -> bool:
        """Whether the broker reads the agent's report over HTTP."""
        return self.agent.startswith(("http://", "https://"))


def parse_reach(text: str) -> Reach:
    """Parse the `reach` of a site. Raises BadInput for anything but the examples."""
    if text == LOCAL:
        return Reach(LOCAL)
    if cluster := _CLUSTER.fullmatch(text):
        return Reach(SLURM, cluster=cluster[1])
    login = _LOGIN.fullmatch(text)
    if login is None or not 0 < int(login[3] or SSH_PORT) < 65_536:
        raise BadInput(f"{text!r} is not a way to reach a site", hint=f"write {REACH_EXAMPLES}")
    return Reach(SSH, user=login[1], host=login[2].strip("[]"), port=int(login[3] or SSH_PORT))


@dataclass(frozen=True, eq=False)
class SiteRoom:
    """A site's machine room: its cooling, the outside temperature [degrees C], and what an idle unit draws [W]."""

    facility: Facility
    outside_c: float
    idle_w: float


@dataclass(frozen=True)
class Site:
    """A cluster that allocates `units` (nodes or cores) of `cores_per_unit` cores, each unit drawing `unit_w` in use.

    `core_gflops` is its speed under Linpack per core. Electricity prices are those of `price_zone` (a market) or
    `tariff`; emissions are `esc_g_per_kwh` (a fixed mix) or those of `carbon_zone` (a live series). `ranks` holds the
    relative speed of applications, higher is faster. `max_per_cycle` is how many jobs the site takes in one scheduling
    cycle, and `allocations` the core-hours that projects may use since `allocations_since_s` [Unix s], None for ever;
    None in the former two is no bound, and a site with allocations runs only their projects. A site without `reach`
    exists in simulations only. The PUE of a site with a `room` depends on its load; `pue` is that of full load.
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
        """Return the PUE for this number of units in use."""
        if self.room is None:
            return np.full(np.shape(busy_units), self.pue)
        it_w = self.unit_w * busy_units + self.room.idle_w * (self.units - busy_units)
        return self.room.facility.pue_at(it_w, np.full(np.shape(busy_units), self.room.outside_c))

    @property
    def cue_g_per_kwh(self) -> float | None:
        """CO2 per kWh of computing: ESC x PUE (Majanen et al., equation 2); None if the carbon series is live."""
        return None if self.esc_g_per_kwh is None else self.esc_g_per_kwh * self.pue


@dataclass(frozen=True)
class Link:
    """The way that data takes between two sites, the same in both directions."""

    between: tuple[str, str]
    latency_s: float
    bandwidth_mb_per_s: float


@dataclass(frozen=True)
class Grid:
    """m sites in the order of their file, and the links between them."""

    sites: tuple[Site, ...]
    links: tuple[Link, ...] = ()

    def __len__(self) -> int:
        return len(self.sites)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the sites are called."""
        return tuple(site.name for site in self.sites)

    def index(self, name: str) -> int:
        """Return the number of a site. Raises BadInput if there is none of that name."""
        if name not in self.names:
            raise BadInput(f"there is no site {name!r}", hint=did_you_mean(name, self.names))
        return self.names.index(name)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Every feature that a site has; feature i is bit i of a mask."""
        return tuple(sorted({feature for site in self.sites for feature in site.features}))

    @cached_property
    def applications(self) -> tuple[str, ...]:
        """Every application that a site has a rank for, by its number."""
        return tuple(sorted({application for site in self.sites for application in site.ranks}))

    def application_number(self, name: str) -> int:
        """Return the number of an application. Raises BadInput if no site has a rank for it."""
        if name not in self.applications:
            hint = (
                did_you_mean(name, self.applications)
                if self.applications
                else "ranks in the file of sites, or leave it"
            )
            raise BadInput(f"no site has a rank for the application {name!r}", hint=hint)
        return self.applications.index(name)

    @cached_property
    def projects(self) -> tuple[str, ...]:
        """Every project that has an allocation somewhere, by its number."""
        return tuple(sorted({project for site in self.sites for project in site.allocations or ()}))

    def feature_mask(self, wanted: Iterable[str]) -> np.uint64:
        """Return the mask of features. Raises BadInput for one that no site has."""
        mask = 0
        for feature in wanted:
            if feature not in self.features:
                raise BadInput(f"no site has the feature {feature!r}", hint=did_you_mean(feature, self.features))
            mask |= 1 << self.features.index(feature)
        return np.uint64(mask)

    @cached_property
    def units(self) -> Int64:
        """Units of each site, int64[m]."""
        return np.array([site.units for site in self.sites], np.int64)

    @cached_property
    def cores_per_unit(self) -> Int64:
        """Cores of a unit, int64[m]."""
        return np.array([site.cores_per_unit for site in self.sites], np.int64)

    @cached_property
    def unit_w(self) -> Float64:
        """Draw of a unit in use [W], float64[m]."""
        return np.array([site.unit_w for site in self.sites], np.float64)

    @cached_property
    def core_gflops(self) -> Float64:
        """Speed of a core [Gflop/s], float64[m]."""
        return np.array([site.core_gflops for site in self.sites], np.float64)

    @cached_property
    def largest_cores(self) -> Int64:
        """Cores that one job may have, int64[m]."""
        return np.array([min(site.largest_job_cores or site.cores, site.cores) for site in self.sites], np.int64)

    @cached_property
    def longest_s(self) -> Int64:
        """The longest time that a job may request [s], NEVER without limit, int64[m]."""
        return np.array([site.longest_job_s or NEVER for site in self.sites], np.int64)

    @cached_property
    def max_per_cycle(self) -> Int64:
        """Jobs that a site takes in a cycle, NEVER where any number, int64[m]."""
        return np.array([NEVER if (most := s.max_per_cycle) is None else most for s in self.sites], np.int64)

    @cached_property
    def feature_masks(self) -> NDArray[np.uint64]:
        """Features of each site, uint64[m]."""
        return np.array([self.feature_mask(site.features) for site in self.sites], np.uint64)

    @cached_property
    def ranks(self) -> Float64:
        """Rank of each application at each site, NaN if there is none, float64[applications, m]."""
        return np.array([[site.ranks.get(name, np.nan) for site in self.sites] for name in self.applications]).reshape(
            len(self.applications), len(self)
        )

    @cached_property
    def allocated_core_s(self) -> Float64:
        """The allocation of each project [core seconds], inf without bound, float64[projects + 1, m].

        The last row is for jobs of any other project (UNKNOWN): 0 at sites that have allocations.
        """
        rows = [[_allocated_core_s(site, project) for site in self.sites] for project in (*self.projects, "")]
        return np.array(rows, np.float64)

    @cached_property
    def latency_s(self) -> Float64:
        """Latency between sites, 0 if no link is described, float64[m, m]."""
        return self._between("latency_s", 0.0)

    @cached_property
    def bandwidth_mb_per_s(self) -> Float64:
        """Bandwidth between sites, inf where no link is described, float64[m, m]."""
        return self._between("bandwidth_mb_per_s", np.inf)

    def _between(self, name: str, without: float) -> Float64:
        table = np.full((len(self), len(self)), without)
        for link in self.links:
            one, other = (self.index(end) for end in link.between)
            table[one, other] = table[other, one] = getattr(link, name)
        return table


def _allocated_core_s(site: Site, project: str) -> float:
    return np.inf if site.allocations is None else HOUR_S * site.allocations.get(project, 0.0)


def esc_g_per_kwh(percent: Mapping[str, float]) -> float:
    """Return the energy source coefficient of a mix in per cent: the sum of shares times emission factors.

    Raises BadInput for a source that the table lacks, a share below zero, or shares that do not add up to 100.
    """
    for source, share in percent.items():
        if source not in EMISSIONS_G_PER_KWH:
            raise BadInput(f"{source}: is not a source of energy", hint=did_you_mean(source, EMISSIONS_G_PER_KWH))
        if not share >= 0:
            raise BadInput(f"{source}: {share:g} % is not a share", hint="give zero or more per cent")
    whole = math.fsum(percent.values())
    if not math.isclose(whole, WHOLE_PERCENT, abs_tol=0.01):
        raise BadInput(
            f"the shares add up to {whole:g} %", hint="they have to add up to 100; there is a source `other`"
        )
    return math.fsum(share / WHOLE_PERCENT * EMISSIONS_G_PER_KWH[source] for source, share in percent.items())


def tariff_price(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return the site's tariff from `from_s` to `until_s` [Unix s], None if a market has the prices."""
    return None if site.tariff is None else tariff_series(site.tariff, from_s, until_s)


def mix_carbon(site: Site, from_s: int, until_s: int) -> Series | None:
    """Return what the site's mix emits [g/kWh], None if a live series has it."""
    if site.esc_g_per_kwh is None:
        return None
    return Series(np.array([from_s]), until_s, np.array([site.esc_g_per_kwh]), "g/kWh", f"the mix of {site.name}")


def integrate_series(series: Series) -> IntegralCurve:
    """Return the integral of a series; a gap in it counts as its mean.

    For a century before the series its first value holds, for a century after it the mean of its last day. Raises
    BadPrices if it has no known value.
    """
    value = _fill_gaps(series)
    edge_s = np.append(series.start_s, series.end_s).astype(np.float64)
    total = running_integral(edge_s, value)
    day_s = min(float(DAY_S), edge_s[-1] - edge_s[0])
    last_day = (total[-1] - np.interp(edge_s[-1] - day_s, edge_s, total)) / day_s
    return IntegralCurve(
        np.concatenate([edge_s[:1] - CENTURY_S, edge_s, edge_s[-1:] + CENTURY_S]),
        np.concatenate([total[:1] - value[0] * CENTURY_S, total, total[-1:] + last_day * CENTURY_S]),
    )


def _fill_gaps(series: Series) -> Float64:
    known = series.known
    if known.all():
        return series.value
    if not known.any():
        raise BadPrices(f"{series.source}: has no known value", hint="`offpeak prices` shows what each source knows")
    mean = np.average(series.value[known], weights=series.length_s[known])
    return np.where(known, series.value, mean)
