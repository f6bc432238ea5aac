"""What has to be run: the cases of each table and figure, each once."""

from offpeak.model.constants import MINUTE_S
from studies.day_ahead.experiment import DayAheadExperiment, DayAheadReplays, StrategyCase, experiments

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
"""Ours: any number of jobs a cycle, which know of each other."""
CYCLES = {
    "INST, any number": StrategyCase("inst", most=None),
    "baseline, every minute": StrategyCase("baseline", period_s=MINUTE_S),
    "INST, every minute": StrategyCase("inst", period_s=MINUTE_S),
}
"""What holds INST back is MaxQ a cycle: the same with more jobs a cycle, or more cycles."""
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
    return [StrategyCase("mcmf", each) for each in WEIGHTS_PCT]


def by_error() -> list[StrategyCase]:
    """Return MCMF by how wrong waits are."""
    return [StrategyCase("mcmf", wrong_h=each) for each in WRONG_H]


def by_most() -> list[StrategyCase]:
    """Return MCMF by MaxQ."""
    return [StrategyCase("mcmf", most=each) for each in MOST]


def by_share() -> list[StrategyCase]:
    """Return MCMF by the share of jobs that go to the broker."""
    return [StrategyCase("mcmf", brokered_pct=each) for each in BROKERED_PCT]


ALWAYS = (*STRATEGIES.values(), StrategyCase("mcmf", wrong_h=6.0), *CYCLES.values())
"""What the claims rest on: replayed as often as is asked for."""
FEW = 3
"""How often everything else is replayed at most."""


def cases() -> list[StrategyCase]:
    """Return all cases, each once, what matters most first."""
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


def planned(replays: DayAheadReplays) -> tuple[DayAheadExperiment, ...]:
    """Return the experiments, replay by replay: first of what is replayed always, then of the rest."""
    always = [case for case in cases() if case in ALWAYS]
    others = [case for case in cases() if case not in ALWAYS]
    few = min(replays.count, FEW)
    return tuple(
        experiments(case, replays)[number]
        for some, count in ((always, replays.count), (others, few))
        for number in range(count)
        for case in some
    )
