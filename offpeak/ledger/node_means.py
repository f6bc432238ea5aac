"""What each node drew in the mean, quarter-hour by quarter-hour."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select

from offpeak.ledger.tables import quarters, series
from offpeak.ledger.way_sums import WAYS
from offpeak.time_range import TimeRange


class NodeMean(NamedTuple):
    """The mean draw [W] of a node over the measured part of the quarter-hour that begins at `at_unix_s`."""

    at_unix_s: int
    node: str
    power_w: float


def node_means(connection: Connection, span: TimeRange) -> list[NodeMean]:
    """Return the means of the quarter-hours that begin in that time; of two ways of measuring the outermost."""
    columns = (quarters.c.at_unix_s, series.c.node, series.c.way, quarters.c.energy_j, quarters.c.covered_s)
    within = (quarters.c.at_unix_s >= span.from_unix_s) & (quarters.c.at_unix_s < span.until_unix_s)
    of_nodes = (series.c.node != "") & series.c.way.in_(WAYS) & (quarters.c.covered_s > 0)
    found = connection.execute(select(*columns).join(series).where(within, of_nodes))
    by_way: dict[tuple[int, str], dict[str, float]] = {}
    for at_unix_s, node, way, energy_j, covered_s in found:
        ways = by_way.setdefault((at_unix_s, node), {})
        ways[way] = ways.get(way, 0.0) + energy_j / covered_s
    return [NodeMean(*key, _outermost(ways)) for key, ways in sorted(by_way.items())]


def _outermost(ways: Mapping[str, float]) -> float:
    return ways[min(ways, key=WAYS.index)]
