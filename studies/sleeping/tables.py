"""Tables of the study: every policy in energy, delay and cycles, and the families of policies at equal energy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from studies.report import Range, StudyTable, TableCell, range_of
from studies.sleeping.run import (
    ALWAYS_ON,
    EQUAL_ENERGY_PCT,
    FAMILIES,
    POLICIES,
    TIMEOUT,
    SleepingExperiment,
    SleepingReplays,
    SleepingResult,
    experiments,
)

Figure = Callable[[SleepingResult], float]


def saved_pct(result: SleepingResult) -> float:
    """Return the share of the idle energy that was saved [%]."""
    return result.saved_pct


def delay_s(result: SleepingResult) -> float:
    """Return the mean boot delay a job [s]."""
    return result.delay_s


def cycles(result: SleepingResult) -> float:
    """Return the power cycles a node and day."""
    return result.cycles


@dataclass(frozen=True)
class SleepingResults:
    """All results of the study."""

    results: Mapping[SleepingExperiment, SleepingResult]
    replays: SleepingReplays

    def each(self, log: str, policy: str) -> list[SleepingResult]:
        """Return the results of a policy's replays."""
        return [self.results[each] for each in experiments(log, policy, self.replays)]

    def of(self, log: str, policy: str, figure: Figure) -> Range:
        """Return a figure over the replays."""
        return range_of([figure(result) for result in self.each(log, policy)])

    def longer_s(self, log: str, policy: str) -> Range:
        """Return by how much jobs wait longer than on nodes that are always on, in the same replays [s]."""
        pairs = zip(self.each(log, policy), self.each(log, ALWAYS_ON), strict=False)
        return range_of([here.wait_s - there.wait_s for here, there in pairs])

    def at_energy(self, log: str, family: str, pct: float, figure: Figure) -> list[float | None]:
        """Return a figure of a family where it saves `pct` of the idle energy, by replay; None where it never does."""
        replays = zip(*(self.each(log, policy) for policy in FAMILIES[family]), strict=True)
        return [between([(saved_pct(each), figure(each)) for each in replay], pct) for replay in replays]

    def bound(self, log: str, pct: int) -> float | None:
        """Return the fewest cycles that save so much, were the future known; None if a replay cannot."""
        found = [result.bound[pct] for result in self.each(log, ALWAYS_ON)]
        known = [value for value in found if value is not None]
        return fmean(known) if len(known) == len(found) else None

    def equal_energy_pct(self, log: str) -> int:
        """Return the share [%] at which families are compared; of other logs what a time-out of 20 minutes saves."""
        for begins, pct in EQUAL_ENERGY_PCT.items():
            if log.startswith(begins):
                return pct
        return round(fmean(self.of(log, policy, saved_pct).mean for policy in FAMILIES[TIMEOUT][2:4]))


def between(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the height at `x` of the straight lines from point to point, in order of x; None outside of them."""
    at, height = zip(*sorted(points), strict=True)
    return float(np.interp(x, at, height)) if at[0] <= x <= at[-1] else None


RANGES = "In brackets the lowest and the highest of the replays."
BOUND = "future known, no job moved"
FEWEST_REPLAYS = 6
"""Of fewer all may have one sign by chance."""


def policies_table(answers: SleepingResults, logs: Sequence[str]) -> StudyTable:
    """Return a row a log and policy."""
    return StudyTable(
        "policies",
        "Every rule in three ways: energy, delay, cycles",
        "Saved: the share of the idle nodes' energy. Delay: how long nothing but sleeping nodes kept a job from "
        "starting, the mean over all jobs; delayed: the share of jobs for which that is not 0. Cycles: a node's and "
        "day's. Longer: the mean wait against nodes that are always on, in the same replays; it is more than chance if "
        f"no replay of at least {FEWEST_REPLAYS} has another sign. {RANGES}",
        (
            "log",
            "policy",
            "saved [%]",
            "delay [s]",
            "delayed [%]",
            "cycles",
            "mean wait [s]",
            "longer [s]",
            "more than chance",
            "slowdown",
        ),
        tuple(_policy_row(answers, log, policy) for log in logs for policy in POLICIES),
    )


def _policy_row(answers: SleepingResults, log: str, policy: str) -> tuple[TableCell, ...]:
    longer = answers.longer_s(log, policy)
    return (
        log,
        policy,
        answers.of(log, policy, saved_pct),
        answers.of(log, policy, delay_s),
        answers.of(log, policy, lambda result: result.delayed_pct),
        answers.of(log, policy, cycles),
        answers.of(log, policy, lambda result: result.wait_s),
        longer,
        _beyond_chance(longer, len(answers.each(log, policy))) if policy != ALWAYS_ON else None,
        answers.of(log, policy, lambda result: result.slowdown),
    )


def _beyond_chance(longer: Range, replays: int) -> str | None:
    if replays < FEWEST_REPLAYS:
        return None
    return "no" if longer.low <= 0 <= longer.high else "yes"


def equal_energy_table(answers: SleepingResults, logs: Sequence[str]) -> StudyTable:
    """Return a row a log and family where it saves as much as a time-out."""
    return StudyTable(
        "equal-energy",
        "At equal energy",
        "Each family where it saves the same share of the idle energy: straight lines between its policies, replay by "
        "replay. Times: over the time-out's, in the same replays. Empty where a family does not save so much. Last: "
        f"the fewest cycles with which so much can be saved, were the future known and no job moved. {RANGES}",
        ("log", "saved [%]", "rule", "delay [s]", "times", "cycles", "times "),
        tuple(row for log in logs for row in _equal_rows(answers, log)),
    )


def _equal_rows(answers: SleepingResults, log: str) -> list[tuple[TableCell, ...]]:
    pct = answers.equal_energy_pct(log)
    rows: list[tuple[TableCell, ...]] = [
        (log, str(pct), family, *_equal_cells(answers, log, family)) for family in FAMILIES
    ]
    return [*rows, (log, str(pct), BOUND, *_bound_cells(answers, log, pct))]


def _equal_cells(answers: SleepingResults, log: str, family: str) -> tuple[Range | None, ...]:
    pct = answers.equal_energy_pct(log)
    found: list[Range | None] = []
    for figure in (delay_s, cycles):
        own, timeout = (answers.at_energy(log, each, pct, figure) for each in (family, TIMEOUT))
        pairs = zip(own, timeout, strict=False)
        found += [_range(own), _range([here / there if here is not None and there else None for here, there in pairs])]
    return tuple(found)


def _bound_cells(answers: SleepingResults, log: str, pct: int) -> tuple[float | None, ...]:
    least, timeout = answers.bound(log, pct), _range(answers.at_energy(log, TIMEOUT, pct, cycles))
    return 0.0, 0.0, least, least / timeout.mean if least is not None and timeout else None


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return range_of(known) if known else None
