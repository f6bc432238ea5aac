"""The sites of the federation: each cluster, how a broker reaches it, the links, and the grid of all as columns.

The columns have one number per site; names are replaced by numbers.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.facility import Facility
from offpeak.model.node_class import NodeClass
from offpeak.model.snapshot import NEVER
from offpeak.prices.tariff import Tariff
from offpeak.text import did_you_mean

LOCAL, SLURM, SSH = "local", "slurm", "ssh"
SSH_PORT = 22
REACH_EXAMPLES = '"local", "slurm -M NAME", "ssh USER@HOST" or "ssh USER@HOST:PORT"'

_CLUSTER = re.compile(r"slurm -M ([A-Za-z0-9][\w.-]*)")
_LOGIN = re.compile(r"ssh ([A-Za-z_][\w.-]*)@([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")


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
        raise BadInput(f"{text!r} is no way to reach a site", hint=f"write {REACH_EXAMPLES}")
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
    exists in simulations only. The PUE of a site with a `room` depends on its load, and `pue` is the value with all
    units in use.
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


UNKNOWN = -1
MOST_FEATURES = 64


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
