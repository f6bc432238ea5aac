"""What is varied (how many processors are awake when, and what is known of run times), and what a replay results
in.

The paper's figures are drawn: beside our numbers there are its words on its logs, not its numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs
from sim_backend.replications import LARGEST_SHIFT_S

SLA = 200.0
"""S, the mean slowdown that OLS keeps to."""


@dataclass(frozen=True)
class OnlinePaperLog:
    """A log of the paper (section 2 and table 1), and how the name of ours begins.

    `size` is U and `low` is L, in processors. `underused`: machines of which the paper says that its comparisons of
    slowdowns do not hold for them.
    """

    name: str
    begins: str
    jobs: int
    size: int
    low: int
    underused: bool = False


PAPER_LOGS = (
    OnlinePaperLog("CTC", "CTC-SP2", 77_222, 512, 308, underused=True),
    OnlinePaperLog("KTH", "KTH-SP2", 28_490, 100, 75),
    OnlinePaperLog("SDSC-SP2", "SDSC-SP2", 59_725, 128, 110),
    OnlinePaperLog("Blue Horizon", "SDSC-BLUE", 243_314, 1152, 922),
)

ALWAYS_ON = "always-on"
OLS, DAILY, HOURLY = "ols:7d", "ols:1d", "ols:1h"
AS_SCHEDULER = "as the scheduler"
ALL_JOBS, QUEUED_JOBS = "all jobs", "queued jobs"
INSTANT, SERVER = "instant", "server"


@dataclass(frozen=True)
class OnlineSetup:
    """How a log is replayed under EASY. The defaults are the paper's.

    `size`: processors, wider jobs are left out. `capacity`: a policy of power.capacity.registry. `estimates`: what the
    scheduler knows of run times, exact, user or predicted. `what_if`: what OLS knows of them, exact or user, where that
    is something else. `judged`: whose mean slowdown OLS keeps to. `nodes`: transitions that take no time, or those of
    the bundled class `server`. `first_day`: the log's days before it are left out, and weeks are counted from then on.
    """

    size: int
    capacity: str = OLS
    estimates: str = "exact"
    what_if: str = AS_SCHEDULER
    judged: str = ALL_JOBS
    nodes: str = INSTANT
    first_day: int = 0


@dataclass(frozen=True)
class OnlineExperiment:
    """One replay of a setup on a log, with submit times shifted by the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    setup: OnlineSetup


@dataclass(frozen=True)
class OnlineReplays:
    """How often a setup is replayed, and the seed of it all."""

    count: int
    seed: int

    def of(self, setup: OnlineSetup) -> range:
        """Return the numbers of a setup's replays: a quarter of them where they take long or many are alike."""
        takes_long = setup.capacity == HOURLY or (setup.capacity == DAILY and setup != OnlineSetup(setup.size, DAILY))
        return range(-(-self.count // 4) if takes_long or setup.first_day else self.count)


def experiments(log: str, setup: OnlineSetup, replays: OnlineReplays) -> list[OnlineExperiment]:
    """Return the experiments of a setup, one a replay."""
    return [OnlineExperiment(log, replays.seed, replay, setup) for replay in replays.of(setup)]


ByWeek = tuple[float | None, ...]
"""A figure of each week from the first submission on; None for a week without any."""


@dataclass(frozen=True)
class Weekly:
    """By week of their end the jobs' mean slowdown and the share of them above the SLA; utilization of the active
    processors; and how many were active on average.
    """

    slowdown: ByWeek
    violations: ByWeek
    utilization: ByWeek
    active: ByWeek


@dataclass(frozen=True)
class OnlineResult:
    """Measures of a replay from the first submission to the last end; shares from 0 to 1.

    `slowdown` is the jobs' mean of 1 + wait / max(10 s, run), `violations` the share of jobs above the SLA,
    `utilization` that of active processors, `inactive` the share of processor time that was not active, `cycles` how
    often a node fell asleep, per node and year, and `idle_saved` the share of the idle processors' energy that sleep
    saved.
    """

    slowdown: float
    violations: float
    utilization: float
    inactive: float
    cycles: float
    idle_saved: float
    weekly: Weekly


def parse_result(told: Mapping[str, Any]) -> OnlineResult:
    """Return the result that `dataclasses.asdict` gave; KeyError or TypeError if it is none."""
    weekly = Weekly(**{name: tuple(values) for name, values in told["weekly"].items()})
    return OnlineResult(**(dict(told) | {"weekly": weekly}))


def arranged(jobs: Jobs, setup: OnlineSetup) -> Jobs:
    """Return the jobs that are replayed."""
    after_s = jobs.submit_s - jobs.submit_s[0]
    return jobs.take((jobs.size <= setup.size) & (after_s >= setup.first_day * DAY_S))


def shifted(jobs: Jobs, rng: Generator) -> Jobs:
    """Return the jobs, each submitted 0 to 60 s later, in their new order."""
    submit_s = jobs.submit_s + rng.integers(0, LARGEST_SHIFT_S, len(jobs), endpoint=True)
    return replace(jobs, submit_s=submit_s).take(np.argsort(submit_s, kind="stable"))
