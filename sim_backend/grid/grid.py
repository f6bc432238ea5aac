"""What a simulated grid is: its sites, and the log of jobs that are submitted to one of them or to the broker."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.model.step_integrals import StepIntegral
from plugin.capacity.port import CapacityPolicy
from plugin.federation.jobs import GridJobs, grid_jobs
from plugin.federation.sites import Grid, Link, Site
from plugin.window_policy import ARRIVAL
from sim_backend.engine.state import CAN_BE_OUTLIVED, EXACT_RUNTIME, NEVER
from sim_backend.replay.policy import Policy
from sim_backend.replay.powered import PoweredMachine


@dataclass(frozen=True)
class SleepingNodes:
    """The nodes of a site that can sleep, and the policy by which they do."""

    machine: PoweredMachine
    capacity: CapacityPolicy


@dataclass(frozen=True)
class SimulatedSite:
    """A site and how it runs: its scheduler, and its electricity on the clock of the log.

    `price` is in currency per MWh, `carbon` in g per kWh. Raises BadInput for a scheduler that cannot take jobs one by
    one.
    """

    site: Site
    policy: Policy
    price: StepIntegral
    carbon: StepIntegral
    nodes: SleepingNodes | None = None

    def __post_init__(self) -> None:
        rules = self.policy.rules
        if rules.policy != ARRIVAL or rules.estimates >= CAN_BE_OUTLIVED:
            raise BadInput(
                f"site {self.site.name}: {self.policy.name} cannot run in a grid",
                hint="give it a discipline without a window policy, with users' or exact estimates",
            )


@dataclass(frozen=True, eq=False)
class GridLog:
    """Jobs as columns of one length, sorted by submission [Unix s]; times and estimates are those of the site `home`.

    `brokered`: submitted to the broker; the others run at `home`. `data_mb` must be moved to any other site.
    `power_factor`: a job's draw over the site's draw per unit. `latest_end_s` [Unix s] is the latest end of jobs with a
    green SLA, None if no job has one.
    """

    jobs: Jobs
    home: Int64
    brokered: NDArray[np.bool_]
    data_mb: Float64
    power_factor: Float64
    latest_end_s: Int64 | None = None

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True, eq=False)
class SimulatedGrid:
    """The sites, the log, and the links over which data moves; without a link it is there at once.

    Raises BadInput if data moves to a site whose nodes sleep, or whose jobs end exactly when expected.
    """

    sites: tuple[SimulatedSite, ...]
    log: GridLog
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        cannot = [site for site in self.sites if site.nodes or site.policy.rules.estimates == EXACT_RUNTIME]
        if self.links and cannot:
            raise BadInput(
                f"site {cannot[0].site.name}: jobs that wait for data need nodes that stay awake and users' estimates",
                hint="leave the links out, or change the site's policy",
            )

    @cached_property
    def federation(self) -> Grid:
        """The sites as policies see them."""
        return Grid(tuple(site.site for site in self.sites), self.links)

    @cached_property
    def as_requested(self) -> GridJobs:
        """The jobs as policies see them: with estimates instead of run times, and without their power."""
        jobs = self.log.jobs
        return grid_jobs(
            job_id=jobs.job_id,
            cores=jobs.size,
            estimate_s=jobs.estimate_s,
            submit_s=jobs.submit_s,
            home=self.log.home,
            user=jobs.user,
            data_mb=self.log.data_mb,
            latest_end_s=NEVER if self.log.latest_end_s is None else self.log.latest_end_s,
        )

    def units(self, job: Int64, site: int) -> Int64:
        """Return how many units jobs take at a site: whole ones."""
        return -(-self.log.jobs.size[job] // self.sites[site].site.cores_per_unit)

    def at_site_s(self, time_s: Int64, job: Int64, site: int) -> Int64:
        """Return run times or estimates of jobs, given at home, as they are at a site [s], rounded up.

        ERT x ppc(home) / ppc(site): Murali and Vadhiyar 2018, sections 3.1 and 4.5.2.
        """
        speed, home = self.federation.core_gflops, self.log.home[job]
        scaled_s = np.ceil(time_s * (speed[home] / speed[site]))
        return np.where(home == site, time_s, scaled_s).astype(np.int64)

    def data_s(self, job: Int64, site: int) -> Int64:
        """Return how long the data of each job takes to the site [s], rounded up; nothing moves at home."""
        home, data_mb = self.log.home[job], self.log.data_mb[job]
        way_s = self.federation.latency_s[home, site] + data_mb / self.federation.bandwidth_mb_per_s[home, site]
        return np.where((home != site) & (data_mb > 0), np.ceil(way_s), 0).astype(np.int64)
