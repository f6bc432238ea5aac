"""The inputs of the queue hook: the state of the queue at one instant, the site's rules, and the starts of a day plan.

It also renders times and price classes for the reasons that admins and users read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from offpeak.ledger.rows import JobMark
from offpeak.model.step_series import Series
from offpeak.prices.peak import Peak
from plugin.scheduler.job import Job
from plugin.scheduler.port import Ranking

PLAN = "plan"
"""The policy by which the hook carries a plan out."""
SAME_S = 60
"""A begin that moves by less is left."""


@dataclass(frozen=True)
class StartConstraint:
    """A job must not start before `begin_s` [Unix s], and why; whether its owner lets it wait or not."""

    begin_s: int
    why: str


@dataclass(frozen=True)
class PlannedStarts:
    """By job: `start_s` is its planned start [Unix s], `bound` are those that a cap on power keeps back.

    `not_held` are jobs whose owners would let them wait for a cheap hour, and that come to start in none.
    """

    start_s: Mapping[str, int] = field(default_factory=dict)
    bound: Mapping[str, StartConstraint] = field(default_factory=dict)
    not_held: frozenset[str] = frozenset()


PEAK_TEXTS = {Peak.ON_PEAK: "on-peak", Peak.OFF_PEAK: "off-peak", Peak.UNKNOWN: "no price is known"}
NEAR = timedelta(days=6)


def format_clock(at_s: int, now_s: int, zone: tzinfo) -> str:
    """Return the local time: 21:00 today, Sun 06:00 this week, else with its date."""
    at, now = (datetime.fromtimestamp(each, zone) for each in (at_s, now_s))
    if at.date() == now.date():
        return f"{at:%H:%M}"
    return f"{at:%a %H:%M}" if timedelta(0) < at - now < NEAR else f"{at:%Y-%m-%d %H:%M}"


def format_peak(peak: Peak, until_s: int | None, now_s: int, zone: tzinfo) -> str:
    """Return the price's state and until when it lasts."""
    return PEAK_TEXTS[peak] if until_s is None else f"{PEAK_TEXTS[peak]} until {format_clock(until_s, now_s, zone)}"


def format_instant(at_s: int, zone: tzinfo) -> str:
    """Return a local time that reads the same on every day: 2026-11-22 02:00."""
    return f"{datetime.fromtimestamp(at_s, zone):%Y-%m-%d %H:%M}"


ResourcePool = tuple[tuple[str, ...], str]
"""Partitions and needs: jobs in which both are equal compete for the same nodes."""


@dataclass(frozen=True, eq=False)
class QueueFacts:
    """The queue at `now_s`; times are Unix seconds.

    `jobs` are all jobs, those that have just ended too. `peak` holds until `peak_until_s`. `prices` are per MWh, known
    and forecast; `basis` says for each interval what it rests on. By job: `node_power_w` [W per node], `expected_run_s`
    and `expected_wait_s` as predicted (the agent gives none), `told` what its owner was told last. `free_nodes` by
    competition, where known.
    `planned` is the plan that the policy plan carries out, None before there is one.
    `marks` is what we changed before; `set_by_hand` are jobs of which the scheduler says that an admin set them, which
    no adapter does yet.
    """

    now_s: int
    jobs: tuple[Job, ...]
    ranking: Ranking
    peak: Peak = Peak.UNKNOWN
    peak_until_s: int | None = None
    prices: Series | None = None
    basis: tuple[str, ...] = ()
    node_power_w: Mapping[str, float] = field(default_factory=dict)
    expected_run_s: Mapping[str, int] = field(default_factory=dict)
    expected_wait_s: Mapping[str, int] = field(default_factory=dict)
    free_nodes: Mapping[ResourcePool, int] = field(default_factory=dict)
    marks: tuple[JobMark, ...] = ()
    set_by_hand: frozenset[str] = frozenset()
    told: Mapping[str, str] = field(default_factory=dict)
    planned: PlannedStarts | None = None


@dataclass(frozen=True)
class QueueRules:
    """The site's rules: `policy` is greedy, knapsack, plan or off; `window` in jobs of a competition; `zone` its clock.

    A job that later ones have been passing for `max_postponement_s` keeps its place. `longest_delay_s` bounds what a
    job's owner may grant; 0: no job is ever delayed.
    """

    policy: str
    window: int
    max_postponement_s: int
    longest_delay_s: int
    zone: tzinfo


def resource_pool(job: Job) -> ResourcePool:
    """Return what the job competes in."""
    return job.partitions, job.needs


def job_number(job_id: str) -> int:
    """Return the number that a job's name begins with, 0 where it begins with none."""
    if job_id.isdecimal():
        return int(job_id)
    digits = len(job_id) - len(job_id.lstrip("0123456789"))
    return int(job_id[:digits] or 0)
