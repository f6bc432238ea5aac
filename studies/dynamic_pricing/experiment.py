"""What is varied: how a log is replayed (Setup) and how the schedules are billed (Bill).

The two are apart because a policy is told only whether the price is high, never how high: one replay serves all
price ratios and all powers of idle nodes.
"""

from dataclasses import dataclass

WITH_BACKFILLING = ("easy", "greedy", "knapsack")
WITHOUT_BACKFILLING = ("fcfs", "fcfs+greedy", "fcfs+knapsack")
BASELINE_WITHOUT = ("fcfs", "greedy", "knapsack")
FIRST_FIT = ("first-fit", "first-fit+greedy", "first-fit+knapsack")
FIRST_FIT_AGAINST_FCFS = ("fcfs", "first-fit+greedy", "first-fit+knapsack")
TO_THE_LETTER = ("easy", "knapsack-slide")
NO_BOUND_S = 10**9


@dataclass(frozen=True)
class Setup:
    """How a log is replayed. The defaults are the study's starting point.

    `policies`: the first is the baseline. `power`: a distribution of `draw_power_w`, the hungriest job drawing
    `power_ratio` times the most frugal one. `on_peak`: hours of the local clock. `machine_size`: in the log's unit,
    wider jobs are left out; None is the log's own. `first_jobs`: only so many. `load`: gaps between submissions are
    scaled to this offered load; None leaves them. `compressed`: all times of the log are divided by it. `month`: only
    the jobs of that 30-day stretch, from 0, on an empty machine. `period_s` 0 is a pass at each event.
    """

    policies: tuple[str, ...] = WITH_BACKFILLING
    power: str = "uniform"
    power_ratio: float = 3.0
    on_peak: str = "09:00-23:00"
    machine_size: int | None = None
    first_jobs: int | None = None
    load: float | None = None
    compressed: int = 1
    month: int | None = None
    window: int = 20
    period_s: int = 10
    max_postponement_s: int = 24 * 3600
    estimates: str = "user"


@dataclass(frozen=True)
class Bill:
    """What the schedules of a replay are charged.

    `price_ratio`: on-peak over off-peak. `idle_w`: of a unit that runs nothing; the most frugal job draws 100 W.
    `metered` names the field of a PolicyResult: each second at its own price, whole jobs at the price of their start,
    or only what is used until the last submission.
    """

    price_ratio: float = 3.0
    idle_w: float = 75.0
    metered: str = "as_run"


@dataclass(frozen=True)
class Experiment:
    """One replay: all policies of a setup on a log, with the chances of the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    setup: Setup
