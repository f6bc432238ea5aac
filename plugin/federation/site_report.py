"""The report that a site's agent gives a broker: idle cores, the queue, prices and CO2 of the coming days.

It has no names of users. Cores and Unix seconds, as JSON both ways; None is an unknown value.

The expected wait of a job is by its own request on the site's pools of nodes. A site of an older version reports waits
by cores only: then the request counts with its cores alone, and a site with enough idle cores and without a queue has
no wait.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from offpeak.display import duration_text
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.federation.jobs import PlacementRequest
from offpeak.plugin.federation.sites import Site
from offpeak.text import counted

REPORT_VERSION = 1
WaitRows = tuple[tuple[float | None, ...], ...]
"""Waits [s] by size and time limit, None where a wait is not known."""

UNKNOWN_S = math.nan


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
    """The expected waits on the whole cluster by cores, and those of each pool; no pools if there are too many.

    `starts_s` are the expected starts of the jobs that wait for nodes [Unix s]; of an array, that of its first task.
    """

    total: WaitTable = WaitTable()
    pools: tuple[PoolWaits, ...] = ()
    starts_s: Mapping[str, int] = field(default_factory=dict)


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
    `sent_unix_s` is the site's clock as it answered.
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
    sent_unix_s: float | None = None

    def ahead_s(self, requested_unix_s: float, got_unix_s: float) -> float:
        """Return by how much the site's clock is ahead of the one of these times, below 0 if it is behind.

        A site of an older version tells only the time of its last cycle, which is not later than its answer.
        """
        latest_s = self.at_unix_s if self.sent_unix_s is None else self.sent_unix_s
        earliest_s = requested_unix_s if self.sent_unix_s is None else latest_s
        return max(0.0, latest_s - got_unix_s) + min(0.0, earliest_s - requested_unix_s)


def report_json(report: SiteReport) -> Any:
    """Return it as objects, lists, numbers and texts that JSON knows."""
    return _report_shape().dump_python(report, mode="json")


def parse_report(text: object) -> SiteReport:
    """Parse the output of `report_json`, ignoring unknown keys. Raises ValueError for anything else."""
    report: SiteReport = _report_shape().validate_python(text)
    waits = report.waits
    if report.version != REPORT_VERSION:
        raise ValueError(f"version {report.version}, not {REPORT_VERSION}")
    if not all(math.isfinite(at_s) for at_s in (report.at_unix_s, report.sent_unix_s or 0.0)):
        raise ValueError("times that are none")
    if len(waits.wait_s) != len(waits.cores) or any(len(row) != len(waits.limit_s) for row in waits.wait_s):
        raise ValueError("waits that are not a table")
    if not all(_is_table(pool) for pool in report.pools):
        raise ValueError("waits of a pool that are not a table")
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


@dataclass(frozen=True)
class SiteWait:
    """The expected wait [s], NaN if it is not known; `misfit` says why the job fits no nodes, "" if it fits."""

    wait_s: float = UNKNOWN_S
    misfit: str = ""


def expected_wait(report: SiteReport, site: Site, request: PlacementRequest) -> SiteWait:
    """Return how long the job would wait at the site if it were submitted there now."""
    if not report.pools:
        return SiteWait(_wait_by_cores_s(report, site, request))
    # Partitions of another scheduler do not count there. Features that no node reports are those of the
    # sites file.
    given = request.request or Request((), (Chunk(request.cores),), apart=False)
    is_own = site.reach is not None and site.reach.submit == request.submit
    partitions = given.partitions if is_own else ()
    partitions = partitions or tuple(each.name for each in report.partitions if each.is_default)
    needed = frozenset(request.features) & {name for pool in report.pools for name in pool.features}
    chunks = tuple(chunk._replace(features=(needed,) if needed else ()) for chunk in given.chunks)
    requested = given._replace(partitions=partitions, chunks=chunks)
    return wait_on_pools(report.pools, report.partitions, requested, request.limit_s)


def wait_on_pools(
    pools: Sequence[PoolWaits], partitions: Sequence[PartitionTerms], requested: Request, limit_s: int
) -> SiteWait:
    """Return how long a job with that request and time limit would wait for nodes of the pools."""
    terms = [each for each in partitions if each.name in requested.partitions]
    refusals = {each.name: _refusal(each, requested, limit_s) for each in terms}
    if refusals and all(refusals.values()):
        return SiteWait(misfit=next(iter(refusals.values())))
    admitting = tuple(name for name in requested.partitions if not refusals.get(name))
    requested = requested._replace(partitions=admitting)
    cluster = Cluster(
        tuple(_pool(each) for each in pools), {each.name: Partition(each.name, shared=True) for each in partitions}
    )
    if misfit := cluster.misfit(requested):
        return SiteWait(misfit=misfit)
    waits = [_chunk_wait_s(pools, cluster, requested, chunk, limit_s) for chunk in requested.chunks]
    return SiteWait(UNKNOWN_S if any(map(math.isnan, waits)) else max(waits, default=0.0))


def _wait_by_cores_s(report: SiteReport, site: Site, request: PlacementRequest) -> float:
    """Return the wait by the table of the whole cluster, in whole units of the site."""
    cores = -(-request.cores // site.cores_per_unit) * site.cores_per_unit
    at_once = not report.queued and cores <= report.idle_cores
    # A job that is too wide has its own message; its wait does not matter.
    return 0.0 if at_once or cores > site.cores else report.waits.of(cores, request.limit_s)


def _refusal(terms: PartitionTerms, request: Request, limit_s: int) -> str:
    """Return why the partition admits no such job, "" if it does."""
    nodes = request.least_nodes
    if terms.most_nodes is not None and nodes > terms.most_nodes:
        return f"partition {terms.name} admits no job of {counted(nodes, 'node')}"
    if terms.limit_s is not None and limit_s > terms.limit_s:
        return f"partition {terms.name} admits no job with a time limit above {duration_text(terms.limit_s)}"
    return ""


def _pool(pool: PoolWaits) -> Pool:
    kind = NodeType(pool.cores, pool.memory_mib, tuple(pool.gpus.items()), frozenset(pool.features))
    return Pool(kind, frozenset(pool.partitions), pool.nodes)


def _chunk_wait_s(pools: Sequence[PoolWaits], cluster: Cluster, request: Request, chunk: Chunk, limit_s: int) -> float:
    """Return the wait for all copies of the chunk: in the pool where it is shortest, or in several if none has room."""
    (rooms,) = cluster.parts_per_node(request._replace(chunks=(chunk,)))
    usable = [
        (min(room, chunk.copies) if not request.apart else 1, pool)
        for room, pool in zip(rooms, pools, strict=True)
        if room
    ]
    alone = [
        _wait_s(pool, chunk, per_node, -(-chunk.copies // per_node), limit_s, whole=request.whole_nodes)
        for per_node, pool in usable
        if pool.nodes * per_node >= chunk.copies
    ]
    if alone:
        # A wait that is not known is longer than those that are.
        return min((wait_s for wait_s in alone if not math.isnan(wait_s)), default=UNKNOWN_S)
    together, missing = [0.0], chunk.copies
    for per_node, pool in sorted(usable, key=lambda pair: -pair[0] * pair[1].nodes):
        nodes = min(pool.nodes, -(-missing // per_node))
        together.append(_wait_s(pool, chunk, per_node, nodes, limit_s, whole=request.whole_nodes))
        missing -= nodes * per_node
        if missing <= 0:
            break
    return UNKNOWN_S if any(map(math.isnan, together)) else max(together)


def _wait_s(pool: PoolWaits, chunk: Chunk, per_node: int, nodes: int, limit_s: int, *, whole: bool) -> float:
    """Return the wait for so many nodes of the pool with parts that cover `per_node` copies of the chunk."""
    column = min(bisect_left(pool.limit_s, limit_s), len(pool.limit_s) - 1)
    waits = [
        each.wait_s[row][column]
        for each in (pool.parts[-1:] if whole else pool.parts)
        if (each is pool.parts[-1] or _covers(each.part, chunk, per_node))
        and (row := bisect_left(each.nodes, nodes)) < len(each.nodes)
    ]
    return min((wait_s for wait_s in waits if wait_s is not None), default=UNKNOWN_S)


def _covers(part: NodePart, chunk: Chunk, copies: int) -> bool:
    needs = (chunk.cores * copies, chunk.memory_mib * copies, chunk.gpus * copies)
    return all(need <= has for need, has in zip(needs, (part.cores, part.memory_mib, part.gpus), strict=True))
