"""What a simulated grid is: its sites, the log of jobs for them or for the broker, and its electricity.

A broker knows the published hours of the current local day, and forecasts of later ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.jobs import Jobs
from offpeak.model.step_integrals import StepIntegral
from offpeak.model.step_series import Series
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.federation.jobs import GridJobs, grid_jobs
from offpeak.plugin.federation.sites import Grid, Link, Site
from offpeak.plugin.window_policy import ARRIVAL
from offpeak.predictors.prices.history import Past
from offpeak.predictors.prices.models import Member
from offpeak.sim_backend.engine.rules import CAN_BE_OUTLIVED, EXACT_RUNTIME, NEVER
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import Policy


@dataclass(frozen=True)
class SiteNodes:
    """The nodes of a site that can sleep, and the policy by which they do."""

    machine: PoweredMachine
    capacity: CapacityPolicy


@dataclass(frozen=True)
class SimulatedSite:
    """A site and how it runs: its scheduler, and its electricity on the clock of the log.

    `price` is in currency per MWh, `carbon` in g per kWh. BadInput for a scheduler that cannot take jobs one by one.
    """

    site: Site
    policy: Policy
    price: StepIntegral
    carbon: StepIntegral
    nodes: SiteNodes | None = None

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


AHEAD_DAYS = 4
LIKE_DAYS = 3
FAR_S = 2**33
"""Beyond any log [Unix s]."""


@dataclass(frozen=True)
class Steady:
    """Electricity that never changes: prices per MWh and CO2 in g/kWh, one of each a site."""

    price_per_mwh: Sequence[float]
    co2_g_per_kwh: Sequence[float]
    currency: str = "EUR"

    def price(self, _now_s: int) -> tuple[Series, ...]:
        """Return a series of one value a site."""
        return self._prices

    def carbon(self, _now_s: int) -> tuple[Series, ...]:
        """Return a series of one value a site."""
        return self._carbons

    @cached_property
    def _prices(self) -> tuple[Series, ...]:
        return tuple(_steady(value, f"{self.currency}/MWh") for value in self.price_per_mwh)

    @cached_property
    def _carbons(self) -> tuple[Series, ...]:
        return tuple(_steady(value, "g/kWh") for value in self.co2_g_per_kwh)


def _steady(value: float, unit: str) -> Series:
    return Series(np.array([0]), FAR_S, np.array([value]), unit, "steady")


@dataclass(frozen=True, eq=False)
class DayAhead:
    """Hourly prices of one market, known to the end of the local day; four more days are forecast.

    `price` float64[days, 24] begins at midnight `start_s` [Unix s] on a clock that does not change, `coming`
    float64[days, 4, 24] are the forecasts of each day for the following ones.
    """

    price: Float64
    coming: Float64
    start_s: int
    unit: str

    def at(self, now_s: int) -> Series:
        """Return the series known at that instant, from the last midnight on."""
        return self._days[min(max((now_s - self.start_s) // DAY_S, 0), len(self.price) - 1)]

    @cached_property
    def _days(self) -> tuple[Series, ...]:
        return tuple(self._known_on(day) for day in range(len(self.price)))

    def _known_on(self, day: int) -> Series:
        value = np.append(self.price[day], self.coming[day])
        start_s = self.start_s + day * DAY_S + HOUR_S * np.arange(len(value))
        return Series(start_s, int(start_s[-1]) + HOUR_S, value, self.unit, "published and forecast")


def forecast_days(price: Float64, member: Member, days: range) -> Float64:
    """Return what `member` says on each of `days` of the four days after it, float64[days of price, 4, 24].

    The member knows all days up to that one. For other days, and after three equal days, the same hours are repeated.
    """
    coming = np.repeat(price[:, None], AHEAD_DAYS, axis=1)
    for day in days:
        if np.ptp(price[max(day - LIKE_DAYS + 1, 0) : day + 1]) > 0:
            coming[day] = _after(price[: day + 1], member)
    return coming


def _after(price: Float64, member: Member) -> Float64:
    days = len(price)
    past = Past(0, price, np.ones(days, np.bool_), np.zeros(days + AHEAD_DAYS + 1, np.int64))
    model = member.fit(past)
    for _ in range(AHEAD_DAYS):
        past = past.followed_by(model(past))
    return past.price[days:]


_NO_CARBON = _steady(0.0, "g/kWh")


@dataclass(frozen=True, eq=False)
class Markets:
    """The electricity of sites, each in a market by the day; CO2 is not counted."""

    market: tuple[DayAhead, ...]

    def price(self, now_s: int) -> tuple[Series, ...]:
        """Return the known prices of each site."""
        return tuple(each.at(now_s) for each in self.market)

    def carbon(self, _now_s: int) -> tuple[Series, ...]:
        """Return zeros."""
        return (_NO_CARBON,) * len(self.market)
