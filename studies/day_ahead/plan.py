"""The cases of each table and figure of the part XSEDE, and the paper's figures beside them.

The paper's figures are its Tables 4 to 8 for XSEDE: response in minutes, cost in dollars over 10,000 jobs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from offpeak.model.constants import MINUTE_S
from studies.day_ahead.run import DayAheadExperiment, StrategyCase
from studies.harness import Replays

START = StrategyCase("mcmf")
BASELINE, INST, TWO_PRICE, CHEAPEST = (
    StrategyCase("baseline"),
    StrategyCase("inst"),
    StrategyCase("two-price"),
    StrategyCase("mcmf", 0.0),
)
STRATEGIES = {
    "baseline": BASELINE,
    "MCMF, w_t = 25 %": START,
    "MCMF, w_t = 0 %": CHEAPEST,
    "INST": INST,
    "TWOPRICE": TWO_PRICE,
}
"""Table 4."""
WEIGHTS_PCT = (0.0, 10.0, 25.0, 50.0, 100.0)
WRONG_H = (0.0, 1.0, 3.0, 6.0, 12.0, 24.0)
MOST = (1, 2, None)
BROKERED_PCT = (25, 50, 100)
INFORMED = StrategyCase("mcmf", most=None, passes=3)
"""Ours: any number of jobs per cycle, and the broker considers the jobs of a cycle together."""
CYCLES = {
    "INST, any number": StrategyCase("inst", most=None),
    "baseline, every minute": StrategyCase("baseline", period_s=MINUTE_S),
    "INST, every minute": StrategyCase("inst", period_s=MINUTE_S),
}
"""MaxQ per cycle limits INST: the same with more jobs per cycle, or with more cycles."""
EACH_MINUTE = StrategyCase("mcmf", period_s=MINUTE_S)
WITH_DATA = {
    "baseline": StrategyCase("baseline", data=True),
    "MCMF, w_t = 25 %": StrategyCase("mcmf", data=True),
    "MCMF, w_t = 20 %": StrategyCase("mcmf", 20.0, data=True),
    "INST": StrategyCase("inst", data=True),
    "TWOPRICE": StrategyCase("two-price", data=True),
}
"""Table 7."""


def by_weight() -> list[StrategyCase]:
    """Return MCMF by w_t."""
    return [StrategyCase("mcmf", weight_pct) for weight_pct in WEIGHTS_PCT]


def by_error() -> list[StrategyCase]:
    """Return MCMF by the error of predicted waits."""
    return [StrategyCase("mcmf", wrong_h=hours) for hours in WRONG_H]


def by_most() -> list[StrategyCase]:
    """Return MCMF by MaxQ."""
    return [StrategyCase("mcmf", most=most) for most in MOST]


def by_share() -> list[StrategyCase]:
    """Return MCMF by the share of jobs that go to the broker."""
    return [StrategyCase("mcmf", brokered_pct=share_pct) for share_pct in BROKERED_PCT]


ALWAYS = (*STRATEGIES.values(), StrategyCase("mcmf", wrong_h=6.0), *CYCLES.values())
"""The cases that the claims rest on: each is replayed as often as requested."""
FEW = 3
"""The most replays of every other case."""


def cases() -> list[StrategyCase]:
    """Return all cases, each once, the most important first."""
    every = (
        *ALWAYS,
        *by_weight(),
        *by_error(),
        *by_most(),
        *by_share(),
        INFORMED,
        EACH_MINUTE,
        *WITH_DATA.values(),
    )
    return list(dict.fromkeys(every))


def experiments(case: StrategyCase, replays: Replays) -> list[DayAheadExperiment]:
    """Return the experiments of a case, one for each replay."""
    return [DayAheadExperiment(case, replays.seed, replay) for replay in range(replays.count)]


def planned(replays: Replays) -> tuple[DayAheadExperiment, ...]:
    """Return the experiments, replay by replay: first those that are replayed always, then the rest."""
    always = [case for case in cases() if case in ALWAYS]
    others = [case for case in cases() if case not in ALWAYS]
    few = min(replays.count, FEW)
    return tuple(
        experiments(case, replays)[number]
        for some, count in ((always, replays.count), (others, few))
        for number in range(count)
        for case in some
    )


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
