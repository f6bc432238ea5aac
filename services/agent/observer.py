"""What the agent observes: the scheduler, prices and carbon of the coming days, and the weather.

The agent reads the scheduler once for all loops that need it at the same moment. The price loop writes each price to
the ledger once, and again if it changes. The weather serves the policy plan.
"""

import asyncio
import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import numpy as np

from offpeak.errors import SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import Price
from offpeak.model.constants import DAY_S, HOUR_S, QUARTER_S
from offpeak.model.flexibility import FlexibilityRules
from offpeak.model.step_series import Series, value_at
from offpeak.model.weighing import BY_PRICE, Weighing
from offpeak.plugin.contract.rules import (
    NO_CONTRACT,
    ContractFinding,
    ManagedSite,
    check_contract,
    find_nodes_kept_awake,
)
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import RequeuePermit, Scheduler, SchedulerTraits, SchedulerView
from offpeak.predictors.feeds.feed import Feed, fetched
from offpeak.predictors.feeds.port import INCOMPLETE, FeedProblem, Window
from offpeak.predictors.feeds.registry import temperature_feed
from offpeak.predictors.price_forecast import PriceCurve, PriceSource, price_curve, weigh_curve
from offpeak.predictors.site_sources import carbon_series
from offpeak.prices.peak import Peak, PeakRule
from offpeak.prices.tariff import CHARGED
from offpeak.services.agent.loop import Loop, ProblemLog
from offpeak.services.agent.pace import ReadingPace, after_failure, after_reading
from offpeak.services.agent.status import ForecastStatus, PriceSlot, PriceStatus
from offpeak.settings.replay import FeedSettings

SLOW_S = 3.0
"""Real seconds between two rounds that take long, where the clock runs faster."""


def make_price_rows(
    before: Mapping[float, Price], series: Series, basis: Sequence[str], *, now_s: int, carbon: Series | None = None
) -> tuple[Mapping[float, Price], tuple[Price, ...]]:
    """Return the prices that the ledger has after this round, and the new rows, from the present quarter-hour on.

    `before` has the prices that are in the ledger and have not ended, by their start [Unix s].

    `basis` is the source of each interval, such as "published" or "forecast ...". A published price replaces the
    forecast of the same start. `carbon` is in g/kWh; an interval gets the value at its middle. After a restart `before`
    is empty, and the present and coming hours are written again. Energy is paid by quarter-hours, so that an agent that
    starts in one writes the prices of all of it.
    """
    quarter_s = now_s // QUARTER_S * QUARTER_S
    ends_s = series.start_s + series.length_s
    carbon_g = value_at(carbon, series.start_s + series.length_s // 2) if carbon else np.full(len(series), np.nan)
    columns = (series.start_s, ends_s, series.value, carbon_g)
    rows = [
        Price(float(start_s), float(end_s), price, series.currency, source, None if np.isnan(of_co2) else of_co2)
        for start_s, end_s, price, of_co2, source in zip(*(column.tolist() for column in columns), basis, strict=True)
        if end_s > quarter_s and not np.isnan(price)
    ]
    new = (replace(row, known_unix_s=float(now_s)) for row in rows if before.get(row.from_unix_s) != row)
    return {row.from_unix_s: row for row in rows}, tuple(new)


PRICES_EVERY_S = 900.0
"""Day-ahead prices come once a day; a source that failed is queried again after this time."""
PRICES_AHEAD_S = 2 * DAY_S


@dataclass(frozen=True)
class PriceSection:
    """The sources of prices and carbon, the rule of on-peak hours, the longest delay of a job, and what decides."""

    prices: PriceSource
    carbon: Feed | float | None
    peak_rule: PeakRule
    zone: tzinfo
    longest_delay_s: int
    weighing: Weighing = BY_PRICE


def read_prices(section: PriceSection, *, now_s: int) -> PriceCurve:
    """Return the prices of the coming days, as far as a job may be delayed. It waits for the sources."""
    ahead_s = int(max(PRICES_AHEAD_S, section.longest_delay_s + DAY_S))
    return price_curve(section.prices, section.peak_rule, section.zone, now_s=now_s, ahead_s=ahead_s)


def read_carbon(
    section: PriceSection, curve: PriceCurve, *, now_s: int
) -> tuple[Series | None, tuple[FeedProblem, ...]]:
    """Return the known carbon intensity of the time of the prices, and the problems. It waits for the source."""
    return carbon_series(section.carbon, Window(int(curve.series.start_s[0]), curve.series.end_s), now_s)


def describe_problems(problems: Iterable[FeedProblem]) -> str | None:
    """Return the problems of a feed, None for none; days that are not published yet are no problem."""
    return "; ".join(f"{each}; {each.hint}" for each in problems if each.condition not in INCOMPLETE) or None


class PriceLoop(Loop):
    """Reads the prices of the site in a thread; `curve` is known and forecast prices, None before the first round.

    `carbon` [g/kWh] is of the same time, None if it is not known.
    """

    name = "prices"
    fetches = True
    least_pause_s = SLOW_S
    period_s = PRICES_EVERY_S

    def __init__(
        self, section: Callable[[], PriceSection], ledger: Ledger, problem_log: ProblemLog, clock: Callable[[], float]
    ) -> None:
        self._section, self._ledger, self._problem_log, self._clock = section, ledger, problem_log, clock
        self._written: Mapping[float, Price] = {}
        self.curve: PriceCurve | None = None
        self.carbon: Series | None = None

    async def round(self) -> None:
        """Read all sources, and write new values."""
        section, now_s = self._section(), int(self._clock())
        curve = await fetched(lambda: read_prices(section, now_s=now_s))
        carbon, carbon_problems = await fetched(lambda: read_carbon(section, curve, now_s=now_s))
        self._problem_log.report("prices", describe_problems(curve.problems))
        self._problem_log.report("carbon", describe_problems(carbon_problems))
        self.curve = weigh_curve(curve, carbon, section.weighing, section.peak_rule)
        self.carbon = carbon
        basis = [f"{each}{CHARGED}" for each in curve.basis] if section.prices.contract else curve.basis
        self._written, rows = make_price_rows(self._written, curve.series, basis, now_s=now_s, carbon=carbon)
        self._ledger.write_prices(rows)

    def status(self, now_s: int) -> PriceStatus:
        """Return the price at that time."""
        curve = self.curve
        at = -1 if curve is None else curve.at(now_s)
        if curve is None or at < 0:
            return PriceStatus(None, "", "no price is known")
        decisions, price = curve.decisions, float(curve.series.value[at])
        on_peak, until_s = _is_on_peak(decisions.peak_at(now_s)), float(decisions.peak_until_s(now_s))
        return PriceStatus(price, curve.series.unit, curve.basis[at], on_peak, until_s, curve.decided_by)

    @property
    def slots(self) -> tuple[PriceSlot, ...]:
        """The curve interval by interval."""
        return price_slots(self.curve, self.carbon) if self.curve else ()

    @property
    def forecasts(self) -> tuple[ForecastStatus, ...]:
        """The errors of recent price forecasts, if there are forecasts."""
        curve = self.curve
        if curve is None or curve.errors is None:
            return ()
        return (ForecastStatus("price", curve.series.unit, **vars(curve.errors)),)


def price_slots(curve: PriceCurve, carbon: Series | None = None) -> tuple[PriceSlot, ...]:
    """Return the prices interval by interval, each with the class of its begin and the carbon at its middle."""
    (low, high), series = curve.range_80, curve.series
    carbon_g = value_at(carbon, series.start_s + series.length_s // 2) if carbon else np.full(len(series), np.nan)
    columns = (map(_finite, column.tolist()) for column in (series.value, low, high, carbon_g))
    rows = zip(series.start_s.tolist(), *columns, curve.basis, strict=True)
    return tuple(
        PriceSlot(at_s, price, below, above, _is_on_peak(curve.decisions.peak_at(at_s)), basis, gram)
        for at_s, price, below, above, gram, basis in rows
    )


def _is_on_peak(peak: int) -> bool | None:
    return None if peak == Peak.UNKNOWN else peak == Peak.ON_PEAK


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


WEATHER_EVERY_S = HOUR_S


class WeatherLoop(Loop):
    """Reads the weather in a thread. `weather` [degC] is None before it is known, or without a source.

    `feeds` gives the settings of its source, None while no policy uses the weather.
    """

    name = "weather"
    fetches = True
    least_pause_s = SLOW_S
    period_s = WEATHER_EVERY_S

    def __init__(
        self, feeds: Callable[[], FeedSettings | None], problem_log: ProblemLog, clock: Callable[[], float]
    ) -> None:
        self._feeds, self._problem_log, self._clock = feeds, problem_log, clock
        self.weather: Series | None = None

    async def round(self) -> None:
        """Read the weather."""
        feeds, now_s = self._feeds(), int(self._clock())
        feed = temperature_feed(feeds) if feeds is not None and feeds.temperature else None
        if feed is None:
            return
        known = await fetched(lambda: feed.known(Window(now_s - HOUR_S, now_s + int(PRICES_AHEAD_S)), now_s))
        self.weather = known.series or self.weather
        problem = "; ".join(f"{each}; {each.hint}" for each in known.problems) if known.series is None else None
        self._problem_log.report("weather", problem)


TRAITS_LAST_S = 60.0
"""So soon an admin's change of the configuration counts, such as a node that is excluded from power saving."""
SCHEDULER, ORDER = "scheduler", "order of jobs"
"""The subject of its problems in the log."""
RECENT_S = 900.0
"""So long a view tells which jobs run if the scheduler does not answer, as a node keeps a cap without the agent."""
SAME_MOMENT_S = 1.0
"""Loops that read the scheduler within this time get the same view."""
SAME_READING_PAUSES = 0.25
"""The same, as a part of the pause between two readings."""
TRAITS_PAUSES = 10
"""The configuration is read after so many pauses at the earliest."""


@dataclass(frozen=True)
class ClusterObservation:
    """The cluster at one moment: jobs and nodes of the scheduler, its traits, and the prices, None if not known.

    The nodes in `kept_awake` are not put to sleep, each by the setting that says so.
    """

    view: SchedulerView
    traits: SchedulerTraits
    prices: PriceCurve | None
    kept_awake: Mapping[str, str] = field(default_factory=dict)


def observe_cluster(scheduler: Scheduler, prices: PriceSection) -> ClusterObservation:
    """Observe the cluster once, without an agent. Waits for scheduler and prices; raises SchedulerError."""
    traits, view = scheduler.traits(), scheduler.view()
    curve = read_prices(prices, now_s=view.at_s)
    carbon = read_carbon(prices, curve, now_s=view.at_s)[0] if prices.weighing.needs_carbon else None
    return ClusterObservation(view, traits, weigh_curve(curve, carbon, prices.weighing, prices.peak_rule))


class Observer:
    """Reads a scheduler. `latest` is its last view, None before the first one; `traits` are known with it.

    `findings` are what breaks the rules of the site's contract; the nodes in `kept_awake` are not put to sleep, each by
    the setting that says so. `problem` is the reason of the last failed reading with a hint, None if it succeeded.
    `pace` says how often it is to be read; what is forgotten is read at once.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        problem_log: ProblemLog,
        clock: Callable[[], float] = time.monotonic,
        *,
        prices: Callable[[], PriceCurve | None] = lambda: None,
        managed: Callable[[], ManagedSite] = ManagedSite,
    ) -> None:
        self._problem_log, self._clock, self._prices, self._managed = problem_log, clock, prices, managed
        self.findings: tuple[ContractFinding, ...] = ()
        self._turn = asyncio.Lock()
        self.use(scheduler)

    def use(self, scheduler: Scheduler) -> None:
        """Read another scheduler from now on, and forget the one before."""
        self._scheduler = scheduler
        self._requested_s = self._changed_s = self._traits_requested_s = self.begun_s = float("-inf")
        self._partitions: dict[str, tuple[str, ...]] = {}
        self.kept_awake: Mapping[str, str] = {}
        self.latest: SchedulerView | None = None
        self.traits: SchedulerTraits | None = None
        self.problem: str | None = None
        self.pace = ReadingPace()

    @property
    def recent(self) -> SchedulerView | None:
        """The latest view, None once it is too old to tell which jobs run."""
        return self.latest if self._clock() - self._requested_s <= RECENT_S else None

    async def observe(self, *, at_most_s: float = SAME_MOMENT_S) -> ClusterObservation | None:
        """Return the cluster with a view of at most that age, None if the scheduler cannot be read."""
        view = await self.view(at_most_s=at_most_s)
        if view is None or self.traits is None:
            return None
        return ClusterObservation(view, self.traits, self._prices(), self.kept_awake)

    async def view(self, *, at_most_s: float) -> SchedulerView | None:
        """Return a view that was requested at most so long ago, None if the scheduler cannot be read.

        Who waits for a reading under way gets its view, however long it takes.
        """
        wanted_s = self._clock()
        async with self._turn:
            fresh = wanted_s - self._requested_s <= at_most_s and self.has_view
            if self.latest is not None and fresh:
                return self.latest
            requested_s, begun_s = self._clock(), time.monotonic()
            try:
                if self._clock() - self._traits_requested_s > max(TRAITS_LAST_S, TRAITS_PAUSES * self.pace.pause_s):
                    self.traits = await asyncio.to_thread(self._scheduler.traits)
                    self._traits_requested_s = self._clock()
                self.latest = await asyncio.to_thread(self._scheduler.view)
            except SchedulerError as problem:
                self.problem = f"{problem}; {problem.hint}"
                # A scheduler that begins anew may have another configuration.
                self._traits_requested_s = float("-inf")
                self._problem_log.report(SCHEDULER, self.problem)
                self.pace = after_failure(self.pace, took_s=time.monotonic() - begun_s)
                return None
            self.problem = None
            self._problem_log.report(SCHEDULER, None)
            self._problem_log.report(ORDER, self.latest.order_problem or None)
            self._requested_s, self.begun_s, at_s = requested_s, begun_s, time.monotonic()
            per_s = self.traits.requests_per_s if self.traits else None
            self.pace = after_reading(self.pace, self.latest.load, at_s=at_s, took_s=at_s - begun_s, per_s=per_s)
            self._partitions = {node.name: node.partitions for node in self.latest.nodes}
            self._check_contract(self.latest)
            return self.latest

    @property
    def has_view(self) -> bool:
        """Whether the latest view still holds: nothing was changed since it was read."""
        return self._requested_s > self._changed_s

    async def requeue_permits(self, jobs: Sequence[str]) -> dict[str, RequeuePermit]:
        """Return what the scheduler shows of these running jobs; nothing if it cannot be read."""
        permits: dict[str, RequeuePermit] = {}
        why = None
        try:
            permits = await asyncio.to_thread(self._scheduler.requeue_permits, jobs) if jobs else {}
        except SchedulerError as problem:
            why = f"{problem}; {problem.hint}"
        self._problem_log.report("requeue", why)
        return permits

    def forget(self) -> None:
        """Read the scheduler again the next time, because it was changed. A view that is being read is too old."""
        self._changed_s = self._clock()

    def _check_contract(self, view: SchedulerView) -> None:
        """Report what breaks a rule now, and the end of what did before."""
        contract = self.traits.contract if self.traits else NO_CONTRACT
        before = {finding.what for finding in self.findings}
        self.findings = check_contract(contract, replace(self._managed(), nodes=view.nodes))
        self.kept_awake = find_nodes_kept_awake(contract, self.findings, view.nodes)
        for finding in self.findings:
            self._problem_log.report(finding.what, f"{finding.reason}; {finding.hint}")
        for what in before - {finding.what for finding in self.findings}:
            self._problem_log.report(what, None)

    @property
    def status(self) -> str:
        """The state of the agent in one line; it is not well before the scheduler has been read."""
        others = [problem for problem in self._problem_log.problems if not problem.startswith(f"{SCHEDULER}: ")]
        if self.problem is not None:
            return "; ".join([f"cannot read the scheduler: {self.problem}", *others])
        if self.latest is None:
            return "; ".join(["starting: nothing read yet", *others])
        return self._problem_log.summary

    def partitions_of_node(self, node: str) -> tuple[str, ...]:
        """Return the partitions of a node in the latest view; none if the node is not known."""
        return self._partitions.get(node, ())


LONGEST_UNDECIDED_S = 60
"""After this time nodes are woken for a new job even if the queue loop has not decided on it."""


def find_undecided_jobs(
    view: SchedulerView, decided: Container[str], rules: FlexibilityRules, *, is_capped: bool = False
) -> frozenset[str]:
    """Return the new jobs that may be delayed, by their owners or if power `is_capped`, and are not decided on yet."""
    new = (
        job
        for job in view.jobs
        if job.state is JobState.PENDING
        and job.job_id not in decided
        and view.at_s - job.submit_s < LONGEST_UNDECIDED_S
    )
    hints = ((job.job_id, rules.of(job)) for job in new)
    return frozenset(job_id for job_id, hint in hints if (not hint.now if is_capped else hint.allows_delay))


def without_jobs(view: SchedulerView, jobs: Container[str]) -> SchedulerView:
    """Return the view without these jobs."""
    return replace(view, jobs=tuple(job for job in view.jobs if job.job_id not in jobs))
