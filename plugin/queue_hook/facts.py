"""The inputs of the queue hook: the queue at one instant, which jobs compete, the site's rules, the starts of a day
plan.

Jobs compete if their requests could use nodes of the same pool, or if a chain of such jobs joins them. Jobs whose
partitions have different priority tiers, or that use a reservation, are kept apart: the scheduler starts them by other
rules than their priorities. An array is one job: what counts is a task, times the tasks that could start now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import NamedTuple

import numpy as np

from offpeak.display import duration_text, percent_text
from offpeak.ledger.rows import JobMark
from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster, competition_groups
from offpeak.model.constants import HOUR_S, MINUTE_S
from offpeak.model.flexibility import Flexibility, FlexibilityRules
from offpeak.model.request import Request
from offpeak.model.step_series import IntegralCurve, Series, running_integral
from offpeak.model.weighing import CO2_UNIT
from offpeak.plugin.scheduler.job import Job, JobState, count_running_tasks, count_startable_tasks
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.window_policy import OrderWindows
from offpeak.prices.peak import Peak

PLAN, OFF = "plan", "off"
"""The policies of the queue hook that are no window policies. PLAN carries out the day plan."""

CAP_AHEAD_S = 6 * HOUR_S
"""A begin time that a cap on power imposes is at most so far ahead, and moves on while the cap lasts.

No longer cap outlives an agent that is gone: the scheduler then starts each job within this time.
"""

EQUAL = 1e-9
"""Costs and times that differ by less are equal."""

NO_CLUSTER = Cluster(())

NEAR = timedelta(days=6)
NO_DATE = "a time without a date"


class CompetitionGroup(NamedTuple):
    """A set of pools by its first one, the priority tiers of the partitions, and the reservation, "" for none.

    Of jobs with different `precedence` the scheduler puts the higher first, whatever their priority.
    """

    pool: int
    tiers: tuple[int, ...]
    reservation: str
    precedence: tuple[int, int]


NO_GROUP = CompetitionGroup(-1, (), "", (0, 0))
"""The group of jobs that fit no node, and of those whose request is not understood."""


class RequestFit(NamedTuple):
    """A request's candidate pools, the nodes it fills of the largest of them, and `why_not` if it could run nowhere."""

    pools: tuple[int, ...]
    tiers: tuple[int, ...]
    filled_nodes: float
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Competition:
    """The groups of the jobs that wait. Equal requests are looked up once."""

    cluster: Cluster
    waiting: Sequence[Job]
    _fits: dict[Request, RequestFit] = field(default_factory=dict)
    _fit_of_id: dict[int, RequestFit] = field(default_factory=dict)
    _group_of_pool: dict[int, int] = field(default_factory=dict)
    _group_of_id: dict[int, CompetitionGroup] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requests = {id(job.request): job.request for job in self.waiting if job.plain and job.request}
        candidates = {request: self._fit(request).pools for request in requests.values()}
        for request, group in competition_groups(candidates).items():
            self._group_of_pool.update(dict.fromkeys(candidates[request], group))

    def fit(self, job: Job) -> RequestFit:
        """Return where the job could run."""
        if (found := self._fit_of_id.get(id(job.request))) is not None:
            return found
        if job.request is None:
            return RequestFit((), (), 0.0, f"its request is not understood: {job.request_problem or 'it has none'}")
        return self._fit(job.request)

    def _fit(self, request: Request) -> RequestFit:
        found = self._fits.get(request)
        if found is None:
            found = self._fits[request] = _fit_of(self.cluster, request)
        # Readers give jobs with equal terms the same object, and a look-up by value costs a hash of all terms.
        self._fit_of_id[id(request)] = found
        return found

    def group(self, job: Job) -> CompetitionGroup:
        """Return the group in which the job competes."""
        if (found := self._group_of_id.get(id(job.request))) is not None:
            return found
        fit, group = self.fit(job), NO_GROUP
        if job.request and fit.pools:
            first = fit.pools[0]
            pool, precedence = self._group_of_pool.get(first, first), self.cluster.precedence(job.request)
            group = CompetitionGroup(pool, fit.tiers, job.request.reservation, precedence)
        return self._group_of_id.setdefault(id(job.request), group)

    def groups(self, job: Job) -> frozenset[CompetitionGroup]:
        """Return the groups whose waiting jobs a started job could have passed.

        A started job is listed with the partition in which it runs only, so one of several tiers passes all groups that
        have its tier. A request that fits no nodes any more counts by the nodes that the job has.
        """
        fit = self.fit(job)
        usable = fit.pools or self._pools_of_hosts(job)
        pools = {self._group_of_pool[pool] for pool in usable if pool in self._group_of_pool}
        partitions = self.cluster.partitions
        tiers = {partitions[name].priority_tier for name in job.partitions if name in partitions}
        return frozenset(
            group
            for group in self._waiting_groups
            if group.pool in pools
            and group.reservation == job.reservation
            and (not group.tiers or not tiers or not tiers.isdisjoint(group.tiers))
        )

    @cached_property
    def _waiting_groups(self) -> frozenset[CompetitionGroup]:
        return frozenset(map(self.group, (job for job in self.waiting if job.plain)))

    def _pools_of_hosts(self, job: Job) -> tuple[int, ...]:
        hosts = frozenset(job.known_hosts)
        return tuple(number for number, pool in enumerate(self.cluster.pools) if not pool.names.isdisjoint(hosts))

    def pools_of(self, jobs: Iterable[Job]) -> frozenset[int]:
        """Return all candidate pools of the jobs."""
        return frozenset(pool for job in jobs for pool in self.fit(job).pools)

    def may_use(self, job: Job, pools: frozenset[int]) -> bool:
        """Return whether the job could use one of the pools; one whose request is not understood might."""
        return job.request is None or not pools.isdisjoint(self.fit(job).pools)

    def filled_nodes(self, job: Job) -> float:
        """Return how many nodes the job, or a task of it, fills: shares of nodes add up."""
        return self.fit(job).filled_nodes or max(job.nodes, 1)


def _fit_of(cluster: Cluster, request: Request) -> RequestFit:
    pools = cluster.candidates(request)
    if not pools:
        return RequestFit((), (), 0.0, f"its request fits no nodes: {cluster.misfit(request)}")
    partitions = [cluster.partitions[name] for name in request.partitions]
    tiers = cluster.tiers(request)
    if request.whole_nodes or (partitions and not any(partition.shared for partition in partitions)):
        return RequestFit(pools, tiers, 0.0)
    largest = max((cluster.pools[pool] for pool in pools), key=lambda pool: pool.nodes)
    return RequestFit(pools, tiers, sum(chunk.copies * largest.node_type.share(chunk) for chunk in request.chunks))


@dataclass(frozen=True)
class StartConstraint:
    """A job must not start before `begin_s` [Unix s], whether or not its owner allows a delay; `why` is the reason.

    `until_s` is the end of the event that stops a running job, which may begin later than that, 0 without one.
    """

    begin_s: int
    why: str
    until_s: int = 0


@dataclass(frozen=True)
class PlannedStarts:
    """The day plan by job: planned starts [Unix s]; `not_held` may be delayed, but not into a cheaper hour."""

    start_s: Mapping[str, int] = field(default_factory=dict)
    not_held: frozenset[str] = frozenset()


class PriceIntegral:
    """The integrals of a price and of the time in which it is known."""

    def __init__(self, prices: Series) -> None:
        self.edges_s: Int64 = np.append(prices.start_s, prices.end_s)
        edges_s = self.edges_s.astype(np.float64)
        self._paid = IntegralCurve(edges_s, running_integral(edges_s, np.where(prices.known, prices.value, 0.0)))
        self._unknown_s = IntegralCurve(edges_s, running_integral(edges_s, np.where(prices.known, 0.0, 1.0)))

    def per_watt(self, at_s: Int64, run_s: int | Int64) -> Float64:
        """Return the cost per watt [price per MWh x s] of runs that start at `at_s`; NaN if a price is not known."""
        end_s = at_s + run_s
        known = (at_s >= self.edges_s[0]) & (end_s <= self.edges_s[-1])
        if self._unknown_s.total[-1]:
            known &= self._unknown_s.between(at_s, end_s) < EQUAL
        return np.where(known, self._paid.between(at_s, end_s), np.nan)


@dataclass(frozen=True)
class WaitAllowance:
    """The time for the queue after a begin time: the wait that `percent` of jobs do not exceed, None: the expected."""

    wait_s: int = 0
    percent: int | None = None

    @property
    def text(self) -> str:
        """The allowance as a part of a reason, "" for less than a minute."""
        if self.wait_s < MINUTE_S:
            return ""
        basis = "expected wait" if self.percent is None else f"{percent_text(self.percent)} of jobs wait no longer"
        return f", less {duration_text(self.wait_s)} for the queue ({basis})"


@dataclass(frozen=True, eq=False)
class QueueFacts:
    """The queue at `now_s`; times are Unix seconds.

    `jobs` are all jobs that the scheduler lists, recently ended ones included. `peak` holds until `peak_until_s`.
    `prices` are what decisions go by, per MWh, published and forecast; `basis` names the source of each interval. By
    job: `node_power_w`, what it draws of each of its nodes [W], `full_node_w`, what a node draws that is full of such
    jobs [W], `expected_run_s` as predicted, `wait_allowances` of jobs that may be delayed, and `notices`, the last
    notice to its owner. `free_nodes` are those of each pool of the `cluster`, by number. The next
    decision is `cycle_s` later; 0: only what is free now is weighed. `planned` is the day plan, None before the first
    one. `constraints` are the jobs that a cap on power delays, under any policy. `marks` record our earlier changes.
    """

    now_s: int
    jobs: tuple[Job, ...]
    ranking: Ranking
    peak: Peak = Peak.UNKNOWN
    peak_until_s: int | None = None
    prices: Series | None = None
    basis: tuple[str, ...] = ()
    node_power_w: Mapping[str, float] = field(default_factory=dict)
    full_node_w: Mapping[str, float] = field(default_factory=dict)
    expected_run_s: Mapping[str, int] = field(default_factory=dict)
    wait_allowances: Mapping[str, WaitAllowance] = field(default_factory=dict)
    cluster: Cluster = NO_CLUSTER
    free_nodes: tuple[float, ...] = ()
    cycle_s: float = 0.0
    marks: tuple[JobMark, ...] = ()
    notices: Mapping[str, str] = field(default_factory=dict)
    planned: PlannedStarts | None = None
    constraints: Mapping[str, StartConstraint] = field(default_factory=dict)

    @cached_property
    def pending(self) -> tuple[Job, ...]:
        """The jobs that wait for their turn, held jobs left out."""
        return tuple(job for job in self.jobs if job.state is JobState.PENDING)

    @cached_property
    def competition(self) -> Competition:
        """Which of the jobs compete for the same nodes."""
        return Competition(self.cluster, self.pending)

    @cached_property
    def running_tasks(self) -> Mapping[str, int]:
        """How many tasks of each array have nodes."""
        return count_running_tasks(self.jobs)

    @cached_property
    def split_arrays(self) -> frozenset[str]:
        """The arrays of which waiting tasks have records of their own."""
        # A change of such an array would reach its waiting tasks.
        waits = (JobState.PENDING, JobState.HELD)
        return frozenset(job.array_id for job in self.jobs if job.array_id and not job.is_array and job.state in waits)

    def startable_tasks(self, job: Job) -> int:
        """Return how many tasks of the job could start now; 1 for a job that is no array."""
        return count_startable_tasks(job, self.running_tasks)

    def wait_allowance(self, job: Job) -> WaitAllowance:
        """Return the allowance of a job that may be delayed; none if its wait is not known."""
        return self.wait_allowances.get(job.job_id, WaitAllowance())

    @property
    def decides_by_co2(self) -> bool:
        """Whether `prices` are emissions of CO2, and no money."""
        return self.prices is not None and self.prices.unit == CO2_UNIT

    @cached_property
    def price_integral(self) -> PriceIntegral | None:
        """The integral of the prices; None while the present price is not known."""
        return None if self.prices is None or self.peak == Peak.UNKNOWN else PriceIntegral(self.prices)


@dataclass(frozen=True)
class QueueRules:
    """The site's rules: its `policy`, the `window` of jobs of a group that may be reordered, its time zone.

    A job that later submissions have been passing for `max_postponement_s` keeps its place. Jobs change places whose
    priorities differ by at most `priority_band_percent` of the site's range. `longest_delay_s` limits
    the delay that a job's owner may allow; 0: no job is ever delayed. `own_policy` orders the windows if `policy` is
    one from outside. `declared` are the site's hints by QOS and partition.
    """

    policy: str
    window: int
    max_postponement_s: int
    priority_band_percent: int
    longest_delay_s: int
    zone: tzinfo
    own_policy: OrderWindows | None = None
    declared: FlexibilityRules | None = None

    @property
    def flexibility(self) -> FlexibilityRules:
        """What jobs allow."""
        return self.declared or FlexibilityRules(self.zone)

    def hints(self, job: Job) -> Flexibility:
        """Return the flexibility that the job's owner, or its site, declares."""
        return self.flexibility.of(job)

    def clock(self, at_s: int, now_s: int) -> str:
        """Return the local time of the site as `format_clock` writes it."""
        return format_clock(at_s, now_s, self.zone)


def local_time(at_s: int, zone: tzinfo) -> datetime | None:
    """Return the local time; None where the calendar has none: users may write any number of seconds."""
    try:
        return datetime.fromtimestamp(at_s, zone)
    except (ValueError, OverflowError, OSError):
        return None


def format_clock(at_s: int, now_s: int, zone: tzinfo) -> str:
    """Return the local time: 21:00 today, Sun 06:00 within a week, else with its date."""
    at, now = local_time(at_s, zone), datetime.fromtimestamp(now_s, zone)
    if at is None:
        return NO_DATE
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%a %H:%M}" if timedelta(0) < at - now < NEAR else f"{at:%Y-%m-%d %H:%M}"
