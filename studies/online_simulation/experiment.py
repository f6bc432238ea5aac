"""What is varied: how many processors are awake when, and who knows how much of the run times."""

from dataclasses import dataclass

ALWAYS_ON = "always-on"
OLS, DAILY, HOURLY = "ols:7d", "ols:1d", "ols:1h"
AS_SCHEDULER = "as the scheduler"
ALL_JOBS, QUEUED_JOBS = "all jobs", "queued jobs"
INSTANT, SERVER = "instant", "server"


@dataclass(frozen=True)
class Setup:
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
class Experiment:
    """One replay of a setup on a log, with submit times shifted by the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    setup: Setup


@dataclass(frozen=True)
class Replays:
    """How often a setup is replayed, and the seed of it all."""

    count: int
    seed: int

    def of(self, setup: Setup) -> range:
        """Return the numbers of a setup's replays: a quarter of them where they take long or many are alike."""
        takes_long = setup.capacity == HOURLY or (setup.capacity == DAILY and setup != Setup(setup.size, DAILY))
        return range(-(-self.count // 4) if takes_long or setup.first_day else self.count)


def experiments(log: str, setup: Setup, replays: Replays) -> list[Experiment]:
    """Return the experiments of a setup, one a replay."""
    return [Experiment(log, replays.seed, replay, setup) for replay in replays.of(setup)]
