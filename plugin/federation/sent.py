"""Jobs that a broker has given to sites: what they have used of allocations, and what a site has not told of yet."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64
from plugin.federation.grid import Grid
from plugin.federation.site_said import SiteSaid

ON_THE_WAY_S = 5.0
"""A job that was sent so shortly before a site looked may not have been there yet."""


@dataclass(frozen=True)
class Sent:
    """A job of `project` given to `site` at `at_unix_s`: whole units of `cores` for `held_s`.

    `there` is False of a job that was cancelled: it keeps nobody waiting any more.
    """

    site: str
    at_unix_s: float
    cores: int
    held_s: float
    project: str = ""
    there: bool = True

    @property
    def core_s(self) -> float:
        """What it has of the site at most [core seconds]."""
        return self.cores * self.held_s


def as_if_told(said: SiteSaid, sent: Iterable[Sent]) -> SiteSaid:
    """Return what a site would say if it had seen the jobs that it was sent since it looked.

    They take what is idle, or stand in the queue, and whoever waits does so behind their work, spread over the site.
    """
    idle_cores, queued, ahead_core_s = said.idle_cores, said.queued, 0.0
    for job in _unseen(said, sent):
        ahead_core_s += job.core_s
        if not queued and job.cores <= idle_cores:
            idle_cores -= job.cores
        else:
            queued += 1
    later_s = ahead_core_s / max(said.cores, 1)
    wait_s = tuple(tuple(each + later_s for each in row) for row in said.waits.wait_s)
    return replace(said, idle_cores=idle_cores, queued=queued, waits=replace(said.waits, wait_s=wait_s))


def left_core_s(grid: Grid, sent: Iterable[Sent]) -> Float64:
    """Return what is left of the allocations [core seconds], shaped as `Grid.allocated_core_s`.

    A job counts with all that it asked for, where it was sent after the beginning of the site's period.
    """
    left = grid.allocated_core_s.copy()
    projects = {name: row for row, name in enumerate(grid.projects)}
    places = {site.name: (at, site.allocations_since_s or 0) for at, site in enumerate(grid.sites)}
    for job in sent:
        at, since_s = places.get(job.site, (0, np.inf))
        if job.project in projects and job.at_unix_s >= since_s:
            left[projects[job.project], at] -= job.core_s
    return np.maximum(left, 0.0)


def _unseen(said: SiteSaid, sent: Iterable[Sent]) -> list[Sent]:
    return [job for job in sent if job.there and job.at_unix_s >= said.at_unix_s - ON_THE_WAY_S]
