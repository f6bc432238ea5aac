"""What is run on XSEDE's grid, what an experiment results in, and the paper's figures beside it.

A case is a strategy with its changes. Lists in a result are by site or by class. The paper's figures are its
Tables 4 to 8 for XSEDE: response in minutes, cost in dollars over 10,000 jobs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class StrategyCase:
    """A strategy (a policy of plugin.federation) at a weight of time w_t [%].

    `wrong_h`: up to so much is added to predicted waits. `most`: MaxQ, jobs a system takes in a cycle, None for any
    number. `brokered_pct`: f_g, the share of jobs that go to the broker. `data`: jobs have data that has to move.
    `passes`: more than one, and jobs of a cycle know of each other. `period_s`: from cycle to cycle; the paper has
    "every few minutes" (section 5.9).
    """

    strategy: str
    time_pct: float = 25.0
    wrong_h: float = 0.0
    most: int | None = 2
    brokered_pct: int = 100
    data: bool = False
    passes: int = 1
    period_s: int = 300


@dataclass(frozen=True)
class DayAheadExperiment:
    """A case with the chances of the seed (`seed`, `replay`), over so many jobs behind so many of history."""

    case: StrategyCase
    seed: int
    replay: int
    jobs: int = 10_000
    history: int = 4_000


@dataclass(frozen=True)
class DayAheadReplays:
    """How often each case is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(case: StrategyCase, replays: DayAheadReplays) -> list[DayAheadExperiment]:
    """Return the experiments of a case, one a replay."""
    return [DayAheadExperiment(case, replays.seed, replay) for replay in range(replays.count)]


@dataclass(frozen=True)
class DayAheadResult:
    """Over the jobs that count: means, sums of cost [USD], and by class their number, response [min] and cost.

    `cost_by_power` has the cost if jobs drew 60 to 100, 60 to 140 and 100 to 140 % of what Linpack does. `fairness` is
    by home, of brokered and of local jobs apart. `load_h` and `power_w` are by site and hour of the first hours.
    """

    response_min: float
    wait_min: float
    bounded_slowdown: float
    runtime_min: float
    cost_usd: float
    cost_by_power: tuple[float, ...]
    wait_error_min: float
    jobs: tuple[int, ...]
    utilization: tuple[float, ...]
    fairness: tuple[float | None, ...]
    fairness_local: tuple[float | None, ...]
    by_error_jobs: tuple[float, ...]
    by_error_min: tuple[float, ...]
    by_size_jobs: tuple[float, ...]
    by_size_min: tuple[float, ...]
    by_size_usd: tuple[float, ...]
    load_h: tuple[tuple[float, ...], ...]
    power_w: tuple[tuple[float, ...], ...]


def parse_result(told: Mapping[str, Any]) -> DayAheadResult:
    """Return the result that `dataclasses.asdict` gave; TypeError or KeyError if it is none."""
    return DayAheadResult(**{each.name: _tuples(told[each.name]) for each in fields(DayAheadResult)})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class CostRow:
    """Mean response [min] and what all jobs cost [USD]."""

    response_min: float
    cost_usd: float


TABLE_4: Mapping[tuple[str, float], CostRow] = {
    ("mcmf", 25.0): CostRow(477.5, 224_021.6),
    ("two-price", 25.0): CostRow(473.3, 232_557.3),
    ("mcmf", 0.0): CostRow(1095.4, 187_298.9),
    ("inst", 25.0): CostRow(3460.8, 205_876.5),
    ("baseline", 25.0): CostRow(633.7, 230_985.6),
}
TABLE_5: Mapping[float, CostRow] = {
    0.0: CostRow(458.5, 228_500.0),
    1.0: CostRow(457.9, 229_000.0),
    3.0: CostRow(457.4, 230_500.0),
    6.0: CostRow(462.3, 230_400.0),
    12.0: CostRow(493.6, 230_200.0),
    24.0: CostRow(518.5, 229_800.0),
}
"""By the perturbation of waits [h]; the table has the mean cost of a job."""
TABLE_6 = {
    "0-10": (21.83, 83.67, -0.10),
    "10-20": (25.57, 88.23, -0.07),
    "20-30": (25.62, 88.47, -0.28),
    "30-50": (28.81, 87.36, -0.18),
    "50-100": (27.63, 85.48, -0.24),
    "100-200": (29.82, 87.69, -0.46),
    "> 200": (34.56, 90.18, -0.35),
}
"""By the error of the estimated run time [%]: how much shorter the response is than under baseline, INST, TWOPRICE."""
TABLE_7: Mapping[tuple[str, float], CostRow] = {
    ("mcmf", 25.0): CostRow(518.2, 229_784.7),
    ("baseline", 25.0): CostRow(678.4, 225_085.7),
    ("mcmf", 20.0): CostRow(640.7, 220_479.4),
    ("two-price", 25.0): CostRow(499.0, 234_341.7),
    ("inst", 25.0): CostRow(1172.5, 201_411.5),
}
TABLE_8 = {
    "lower than HPL": (220_766.14, 197_803.79, 230_634.33, 225_568.33),
    "average HPL": (225_085.79, 199_142.72, 233_869.51, 228_040.67),
    "higher than HPL": (229_355.91, 201_035.58, 236_758.28, 231_575.37),
}
"""Cost [USD] of baseline, INST, TWOPRICE and MCMF by the jobs' power."""
ERROR_EDGES_PCT = (10, 20, 30, 50, 100, 200)
SIZE_EDGES_CORE_H = (512, 4096)
"""Section 5.4: small, medium and large jobs."""
