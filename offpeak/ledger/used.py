"""Energy and cost of a time, by day, node, user or account: what meters said of nodes, or what jobs used."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise

from offpeak.errors import BadInput
from offpeak.time_range import TimeRange, day_edges

OF_METERS = ("day", "node")
OF_JOBS = ("day", "user", "account", "partition")


@dataclass(frozen=True)
class Used:
    """The energy of one group and what it cost.

    `of` are the group's names in the order that was asked for. `cost` is of the energy whose price is known, and
    `unpriced_j` the rest; None where no price is known at all. `jobs` is 0 where meters said it, `covered` the share
    of the time of which they did, None of jobs.
    """

    of: tuple[str, ...]
    energy_j: float
    cost: float | None
    currency: str
    unpriced_j: float
    carbon_g: float | None
    jobs: int = 0
    covered: float | None = None


@dataclass(frozen=True)
class Period:
    """A local day, or what lies of it in the time that is asked for."""

    name: str
    from_unix_s: float
    until_unix_s: float


def check_groups(by: Sequence[str]) -> None:
    """Raise BadInput for groups that nobody measures together."""
    known = dict.fromkeys((*OF_METERS, *OF_JOBS))
    for name in by:
        if name not in known:
            raise BadInput(f"--by {name}: is no group", hint=f"known: {', '.join(known)}")
    if "node" in by and not set(by) <= set(OF_METERS):
        hint = "meters know nodes, jobs know users and accounts: ask twice"
        raise BadInput(f"--by {','.join(by)}: a node's energy is not known by user", hint=hint)


def is_of_jobs(by: Sequence[str]) -> bool:
    """Tell whether jobs answer, not meters."""
    return not set(by) <= set(OF_METERS)


def periods(span: TimeRange, by: Sequence[str], zone: tzinfo) -> list[Period]:
    """Return the local days of a time, or all of it as one period where nobody asks for days."""
    edges = day_edges(span, zone) if "day" in by else [span.from_unix_s, span.until_unix_s]
    return [
        Period(datetime.fromtimestamp(start, zone).date().isoformat(), start, end) for start, end in pairwise(edges)
    ]
