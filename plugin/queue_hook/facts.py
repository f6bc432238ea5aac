"""What the queue hook decides by: all that is known of the queue at one instant, and the site's rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from offpeak.ledger.rows import JobMark
from offpeak.model.step_series import Series
from offpeak.prices.peak import Peak
from plugin.queue_hook.planned import Planned
from plugin.scheduler.job import Job
from plugin.scheduler.port import Ranking

Competition = tuple[tuple[str, ...], str]
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
    free_nodes: Mapping[Competition, int] = field(default_factory=dict)
    marks: tuple[JobMark, ...] = ()
    set_by_hand: frozenset[str] = frozenset()
    told: Mapping[str, str] = field(default_factory=dict)
    planned: Planned | None = None


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


def competition(job: Job) -> Competition:
    """Return what the job competes in."""
    return job.partitions, job.needs


def number_of(job_id: str) -> int:
    """Return the number that a job's name begins with, 0 where it begins with none."""
    if job_id.isdecimal():
        return int(job_id)
    digits = len(job_id) - len(job_id.lstrip("0123456789"))
    return int(job_id[:digits] or 0)
