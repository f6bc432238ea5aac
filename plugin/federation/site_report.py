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
    wait_s: tuple[tuple[float, ...], ...] = ()

    def of(self, cores: int, limit_s: int) -> float:
        """Return the wait [s] of the next larger and longer job in the table, NaN if none is so large."""
        size = bisect_left(self.cores, cores)
        if size == len(self.cores) or not self.limit_s:
            return float("nan")
        return self.wait_s[size][min(bisect_left(self.limit_s, limit_s), len(self.limit_s) - 1)]


@dataclass(frozen=True)
class SiteReport:
    """A cluster at one instant. `idle_cores` are those that a job could be given now: of nodes that sleep, too.

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
    for curve in (report.price, report.carbon):
        if curve is not None:
            curve.series(report.cluster)
    return report


@cache
def _report_shape() -> Any:
    # Slow to import: `--version` must not wait for it.
    from pydantic import TypeAdapter

    return TypeAdapter(SiteReport)
