"""The report that a site's agent gives a broker: idle cores, the queue, prices and CO2 of the coming days.

It has no names of users. Cores and Unix seconds, as JSON both ways; None is an unknown value.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from offpeak.model.step_series import Series

REPORT_VERSION = 1
WaitRows = tuple[tuple[float | None, ...], ...]
"""Waits [s] by size and time limit, None where a wait is not known."""


@dataclass(frozen=True)
class Curve:
    """A series: `value[i]` holds from `start_s[i]` to the next start, the last until `end_s`; `unit` is its unit."""

    start_s: tuple[int, ...]
    end_s: int
    value: tuple[float | None, ...]
    unit: str

    def series(self, source: str) -> Series:
        """Return it as a series. Raises BadPrices if its times do not rise."""
        value = np.array([np.nan if each is None else each for each in self.value], np.float64)
        return Series(np.array(self.start_s, np.int64), self.end_s, value, self.unit, source)


def make_curve(series: Series) -> Curve:
    """Return a series in the form of the report."""
    value = tuple(None if np.isnan(each) else float(each) for each in series.value)
    return Curve(tuple(series.start_s.tolist()), series.end_s, value, series.unit)


@dataclass(frozen=True)
class WaitTable:
    """`wait_s[i][k]` is how long a job of `cores[i]` with the limit `limit_s[k]` would wait; both rise."""

    cores: tuple[int, ...] = ()
    limit_s: tuple[int, ...] = ()
    wait_s: WaitRows = ()

    def of(self, cores: int, limit_s: int) -> float:
        """Return the wait [s] of the next larger and longer job in the table, NaN if it is not known."""
        size = bisect_left(self.cores, cores)
        if size == len(self.cores) or not self.limit_s:
            return float("nan")
        wait_s = self.wait_s[size][min(bisect_left(self.limit_s, limit_s), len(self.limit_s) - 1)]
        return float("nan") if wait_s is None else wait_s


@dataclass(frozen=True)
class NodePart:
    """The part of a node that a job has: cores, memory [MiB] and GPUs of any type."""

    cores: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True)
class PartWaits:
    """`wait_s[i][k]` is how long a job with `part` of each of `nodes[i]` nodes would wait, by its pool's `limit_s`."""

    part: NodePart
    nodes: tuple[int, ...]
    wait_s: WaitRows


@dataclass(frozen=True)
class PoolWaits:
    """Equal nodes in the same partitions, and the expected waits for them.

    Cores and memory are those of a node, 0 where they are not known; `gpus` are types with counts. `limit_s` are the
    time limits of jobs for which the tables of `parts` have columns.
    """

    partitions: tuple[str, ...]
    nodes: int
    cores: int
    memory_mib: int
    gpus: dict[str, int]
    features: tuple[str, ...]
    limit_s: tuple[int, ...]
    parts: tuple[PartWaits, ...]


@dataclass(frozen=True)
class ExpectedWaits:
    """The expected waits on the whole cluster by cores, and those of each pool; no pools if there are too many."""

    total: WaitTable = WaitTable()
    pools: tuple[PoolWaits, ...] = ()


NO_WAITS = ExpectedWaits()


@dataclass(frozen=True)
class PartitionTerms:
    """What a partition admits; None for any. Jobs that name no partition go to the one that `is_default`."""

    name: str
    is_default: bool = False
    most_nodes: int | None = None
    limit_s: int | None = None


@dataclass(frozen=True)
class SiteReport:
    """A cluster at one instant. `idle_cores` are those that a job could be given now: of nodes that sleep, too.

    `waits` are those by cores anywhere on the cluster. `pools` and `partitions` tell more; a site of an older version
    does not have them.

    Jobs that can start at once are not `queued`. `price` is per MWh, `carbon` in g/kWh: published and forecast.
    """

    at_unix_s: float
    cluster: str
    scheduler: str
    cores: int
    idle_cores: int
    queued: int
    running: int
    waits: WaitTable = WaitTable()
    price: Curve | None = None
    carbon: Curve | None = None
    pools: tuple[PoolWaits, ...] = ()
    partitions: tuple[PartitionTerms, ...] = ()
    version: int = REPORT_VERSION


def report_json(report: SiteReport) -> Any:
    """Return it as objects, lists, numbers and texts that JSON knows."""
    return _report_shape().dump_python(report, mode="json")


def parse_report(text: object) -> SiteReport:
    """Parse the output of `report_json`, ignoring unknown keys. Raises ValueError for anything else."""
    report: SiteReport = _report_shape().validate_python(text)
    waits = report.waits
    if report.version != REPORT_VERSION:
        raise ValueError(f"version {report.version}, not {REPORT_VERSION}")
    if len(waits.wait_s) != len(waits.cores) or any(len(row) != len(waits.limit_s) for row in waits.wait_s):
        raise ValueError("waits that are no table")
    if not all(_is_table(pool) for pool in report.pools):
        raise ValueError("waits of a pool that are no table")
    for curve in (report.price, report.carbon):
        if curve is not None:
            curve.series(report.cluster)
    return report


def _is_table(pool: PoolWaits) -> bool:
    return all(
        len(each.wait_s) == len(each.nodes) and all(len(row) == len(pool.limit_s) for row in each.wait_s)
        for each in pool.parts
    )


@cache
def _report_shape() -> Any:
    # Slow to import: `--version` must not wait for it.
    from pydantic import TypeAdapter

    return TypeAdapter(SiteReport)
