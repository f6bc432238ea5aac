"""The sites of a grid as they run, and which job of the grid stands in which row of which."""

from dataclasses import dataclass

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Int64
from sim_backend.engine.state import NEVER
from sim_backend.grid.grid import SimulatedGrid
from sim_backend.grid.open_site import OpenSite, Submission
from sim_backend.nodes.node_log import NodeLog

NOBODY = -1


@dataclass(frozen=True, eq=False)
class GridSchedule:
    """Where and when each job of the grid ran, by index: `queued_s` is when it entered the queue of `site`.

    It held its units from `held_s` on and ran from `start_s`, later where its data was. `node_log` is by site.
    """

    site: Int64
    queued_s: Int64
    held_s: Int64
    start_s: Int64
    end_s: Int64
    node_log: tuple[NodeLog | None, ...]


class RunningGrid:
    """All sites at one instant; local users' jobs are submitted to their homes as time passes."""

    def __init__(self, grid: SimulatedGrid) -> None:
        jobs = grid.log.jobs
        begin_s = int(jobs.submit_s[0]) if len(jobs) else 0
        self._grid = grid
        self.sites = tuple(OpenSite(site, most_jobs=len(jobs), begin_s=begin_s) for site in grid.sites)
        self._jobs: list[list[int]] = [[] for _ in grid.sites]
        self._local = np.flatnonzero(~grid.log.brokered)

    def advance_to(self, now_s: int) -> None:
        """Let everything happen that comes before that second."""
        self._submit_each(self._locals_before(now_s))
        for site in self.sites:
            site.advance(now_s - 1)

    def submit(self, now_s: int, job: Int64, site: Int64) -> None:
        """Submit what was chosen, and the local users' jobs of that second, in the order of the grid's jobs."""
        local = self._locals_before(now_s + 1)
        every = np.concatenate([job, local])
        where = np.concatenate([site, self._grid.log.home[local]])
        order = np.argsort(every, kind="stable")
        self._submit(np.full(len(every), now_s), every[order], where[order])

    def finish(self) -> None:
        """Submit all that is left to submit, and let everything happen."""
        self._submit_each(self._locals_before(NEVER))
        for site in self.sites:
            site.advance(NEVER - 1)

    @property
    def is_empty(self) -> bool:
        """Whether no site runs or queues a job, nor will."""
        return not len(self._local) and all(site.is_idle for site in self.sites)

    def schedule(self) -> GridSchedule:
        """Return where and when each job ran."""
        site_of, queued_s, held_s, start_s, end_s = np.full((5, len(self._grid.log)), NOBODY)
        for number, (site, jobs) in enumerate(zip(self.sites, self._jobs, strict=True)):
            site_of[jobs], queued_s[jobs] = number, site.workload.submit_s[: site.count]
            held_s[jobs], start_s[jobs], end_s[jobs] = site.held_s, site.start_s(), site.end_s()
        logs = tuple(site.node_log() for site in self.sites)
        return GridSchedule(site_of, queued_s, held_s, start_s, end_s, logs)

    def _locals_before(self, before_s: int) -> Int64:
        """Take out the local users' jobs that are submitted before that second."""
        count = int(np.searchsorted(self._grid.log.jobs.submit_s[self._local], before_s, side="left"))
        job, self._local = self._local[:count], self._local[count:]
        return job

    def _submit_each(self, job: Int64) -> None:
        self._submit(self._grid.log.jobs.submit_s[job], job, self._grid.log.home[job])

    def _submit(self, submit_s: Int64, job: Int64, site: Int64) -> None:
        for number in np.unique(site).tolist():
            self._submit_to(number, submit_s[site == number], job[site == number])

    def _submit_to(self, number: int, submit_s: Int64, job: Int64) -> None:
        grid, jobs = self._grid, self._grid.log.jobs
        self._check(job, number)
        self.sites[number].submit(
            Submission(
                submit_s,
                submit_s + grid.data_s(job, number),
                grid.at_site_s(jobs.runtime_s[job], job, number),
                grid.at_site_s(jobs.estimate_s[job], job, number),
                grid.units(job, number),
                grid.sites[number].site.unit_w * grid.log.power_factor[job],
            )
        )
        self._jobs[number] += job.tolist()

    def _check(self, job: Int64, number: int) -> None:
        site = self._grid.sites[number].site
        too_wide = job[self._grid.units(job, number) > site.units]
        if len(too_wide):
            raise OffpeakError(
                f"job {self._grid.log.jobs.job_id[too_wide[0]]} does not fit on {site.name}",
                hint="the chooser sent it there; it must keep to the sites that accept a job",
            )
