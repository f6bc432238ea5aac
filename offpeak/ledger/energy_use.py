"""Energy and cost of a time, by day, node, user or account: what meters measured of nodes, or what jobs used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise

from offpeak.errors import BadInput
from offpeak.model.time_range import TimeRange, day_edges

METER_GROUPS = ("day", "node")
JOB_GROUPS = ("day", "user", "account", "partition")


@dataclass(frozen=True)
class EnergyUse:
    """The energy of one group and its cost.

    `of` are the group's names in the requested order. `cost` is that of the energy with a known price, None without any
    price, and `unpriced_j` the rest of the energy; so are `carbon_g` and `without_carbon_j`. For meters `jobs` is 0 and
    `covered` the measured share of the time; for jobs `covered` is None.
    """

    of: tuple[str, ...]
    energy_j: float
    cost: float | None
    currency: str
    unpriced_j: float
    carbon_g: float | None
    jobs: int = 0
    covered: float | None = None
    without_carbon_j: float = 0.0


@dataclass(frozen=True)
class UsePeriod:
    """A local day, or the part of it within the requested time."""

    name: str
    from_unix_s: float
    until_unix_s: float


def check_groups(by: Sequence[str]) -> None:
    """Raise BadInput for groups that are not measured together."""
    known = dict.fromkeys((*METER_GROUPS, *JOB_GROUPS))
    for name in by:
        if name not in known:
            raise BadInput(f"--by {name}: is not a group", hint=f"known: {', '.join(known)}")
    if "node" in by and not set(by) <= set(METER_GROUPS):
        hint = "meters know nodes, jobs know users and accounts: run two queries"
        raise BadInput(f"--by {','.join(by)}: a node's energy is not known by user", hint=hint)


def periods(span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[UsePeriod]:
    """Return the local days of a time, or the whole time as one period if it is not grouped by day."""
    edges = day_edges(span, zone) if "day" in by else [span.from_unix_s, span.until_unix_s]
    return [
        UsePeriod(datetime.fromtimestamp(start, zone).date().isoformat(), start, end) for start, end in pairwise(edges)
    ]


WAYS = ("snmp", "enclosure", "dcmi", "redfish", "slurm", "rapl")
"""The ways of measuring whose parts add up to a node, from the outlet inwards. One of them counts in a quarter-hour
(`meter_choice`): they measure the same watts. "enclosure" is a node's part of a shared supply.
"""

GPU, GPU_IDLE, GPU_BUSY = "gpu", " idle", " busy"
"""The way of measuring GPUs, whose power is a part of their node's, and the ends of the parts of each GPU."""


@dataclass
class EnergySums:
    """The energy of one node or series in one period, or the sum of one group.

    `covered_s` is the measured time, of a group the sum over its nodes. `without_carbon_j` is the energy of the time
    without a known carbon intensity.
    """

    energy_j: float = 0.0
    cost: float = 0.0
    unpriced_j: float = 0.0
    carbon_g: float | None = None
    without_carbon_j: float = 0.0
    covered_s: float = 0.0

    def add(self, other: "EnergySums") -> None:
        """Add the energy of another part of the same node or group."""
        self.energy_j += other.energy_j
        self.cost += other.cost
        self.unpriced_j += other.unpriced_j
        self.without_carbon_j += other.without_carbon_j
        self.covered_s += other.covered_s
        if other.carbon_g is not None:
            self.carbon_g = (self.carbon_g or 0.0) + other.carbon_g


def energy_use(of: Iterable[str], sums: EnergySums, currency: str, node_s: float) -> EnergyUse:
    """Return the sums of a group of that many node-seconds; the cost is None if nothing of it has a price."""
    cost = sums.cost if currency and sums.unpriced_j < sums.energy_j else None
    return EnergyUse(
        *(tuple(of), sums.energy_j, cost, currency, sums.unpriced_j, sums.carbon_g),
        covered=min(1.0, sums.covered_s / node_s),
        without_carbon_j=sums.without_carbon_j,
    )
