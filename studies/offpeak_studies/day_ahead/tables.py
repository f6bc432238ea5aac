"""The tables of the part XSEDE: the paper's figures beside ours, by case, by class of jobs and by system.

Tables 4, 5 and 7 compare strategies, weights, errors and data; Tables 6 and 8 and Figures 5 and 8 are by class. The
paper's figures are its Tables 4 to 8 for XSEDE: response in minutes, cost in dollars over 10,000 jobs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from operator import attrgetter

from offpeak.model.constants import MINUTE_S
from offpeak.report_tables import Range, StudyTable, TableCell
from offpeak_studies.day_ahead.run import (
    POWERS,
    SIZE_EDGES_CORE_H,
    TB,
    DayAheadExperiment,
    DayAheadResult,
    StrategyCase,
)
from offpeak_studies.harness import Replays
from offpeak_studies.report import column_means, confidence_of, less_pct

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
INFORMED = StrategyCase("mcmf", most=None, together=True)
"""Ours: any number of jobs per cycle, and the broker considers the jobs of a cycle together."""
ANY_NUMBER = StrategyCase("inst", most=None)
CYCLES_MIN = (1, 2, 5, 10, 15, 20, 25, 30)


def at_cycle(case: StrategyCase, minutes: int) -> StrategyCase:
    """Return the case with that time from cycle to cycle: MaxQ limits the jobs that a system takes in each."""
    return replace(case, period_s=minutes * MINUTE_S)


WITH_DATA = {
    name: replace(case, most_data_mb=10 * TB)
    for name, case in (
        ("baseline", BASELINE),
        ("MCMF, w_t = 25 %", START),
        ("MCMF, w_t = 20 %", StrategyCase("mcmf", 20.0)),
        ("INST", INST),
        ("TWOPRICE", TWO_PRICE),
    )
}
"""Table 7."""
LESS_DATA = {
    name: replace(case, most_data_mb=TB)
    for name, case in (("baseline", BASELINE), ("INST", INST), ("TWOPRICE", TWO_PRICE), ("MCMF", START))
}
"""Table 8."""


def by_weight() -> list[StrategyCase]:
    """Return MCMF by w_t."""
    return [StrategyCase("mcmf", weight_pct) for weight_pct in WEIGHTS_PCT]


ALWAYS = (*STRATEGIES.values(), StrategyCase("mcmf", wrong_h=6.0), ANY_NUMBER)
"""The cases that the claims rest on: each is replayed as often as requested."""
FEW = 3
"""The most replays of every other case."""


def cases() -> list[StrategyCase]:
    """Return all cases, each once, the most important first."""
    every = (
        *ALWAYS,
        *by_weight(),
        *(StrategyCase("mcmf", wrong_h=hours) for hours in WRONG_H),
        *(StrategyCase("mcmf", most=most) for most in MOST),
        *(StrategyCase("mcmf", brokered_pct=share_pct) for share_pct in BROKERED_PCT),
        INFORMED,
        *WITH_DATA.values(),
        *LESS_DATA.values(),
        *(at_cycle(case, minutes) for minutes in CYCLES_MIN for case in STRATEGIES.values()),
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
    "baseline": (CostRow(638.99, 220_766.14), CostRow(638.99, 225_085.79), CostRow(638.99, 229_355.91)),
    "INST": (CostRow(1171.25, 197_803.79), CostRow(1110.72, 199_142.72), CostRow(1153.75, 201_035.58)),
    "TWOPRICE": (CostRow(462.65, 230_634.33), CostRow(458.82, 233_869.51), CostRow(456.47, 236_758.28)),
    "MCMF": (CostRow(467.82, 225_568.33), CostRow(465.51, 228_040.67), CostRow(466.05, 231_575.37)),
}
"""By the jobs' power, in the order of `POWERS`."""


@dataclass(frozen=True)
class DayAheadResults:
    """All results of the study, and the names of the sites."""

    results: Mapping[DayAheadExperiment, DayAheadResult]
    replays: Replays
    sites: tuple[str, ...]

    def each(self, case: StrategyCase) -> list[DayAheadResult]:
        """Return the results of a case, one for each replay; most cases have only the first few replays."""
        return [
            self.results[experiment] for experiment in experiments(case, self.replays) if experiment in self.results
        ]

    def shared(self, cases: Iterable[StrategyCase]) -> "DayAheadResults":
        """Return the results of the replays that all these cases have, so that the cases can be compared."""
        count = min(len(self.each(case)) for case in cases)
        return replace(self, replays=Replays(count, self.replays.seed))

    def of(self, case: StrategyCase, figure: Callable[[DayAheadResult], float]) -> Range:
        """Return a figure of the case over the replays."""
        return confidence_of([figure(result) for result in self.each(case)])

    def less_pct(self, case: StrategyCase, than: StrategyCase, figure: Callable[[DayAheadResult], float]) -> Range:
        """Return by how much per cent a figure is lower than under another case in the same replay."""
        return less_pct(self.each(case), self.each(than), figure)

    def saved_pct(self, case: StrategyCase, figure: Callable[[DayAheadResult], float]) -> Range:
        """Return by how much per cent a figure is lower than under the baseline."""
        return self.less_pct(case, BASELINE, figure)

    def mean_by(
        self, case: StrategyCase, column: Callable[[DayAheadResult], Sequence[float | None]]
    ) -> list[float | None]:
        """Return the means over the replays of a column, None if a replay has no value."""
        return column_means(column(result) for result in self.each(case))


RANGES = "In brackets the 95 % confidence interval of the mean over the replays."
HEADERS = ("response", "paper", "shorter", "paper", "cost", "paper", "cheaper", "paper")


response: Callable[[DayAheadResult], float] = attrgetter("response_min")
cost: Callable[[DayAheadResult], float] = attrgetter("cost_usd")


def _beside(
    results: DayAheadResults,
    cases: Mapping[str, StrategyCase],
    paper: Mapping[tuple[str, float], CostRow],
    name: str,
    title: str,
) -> StudyTable:
    return StudyTable(
        name,
        title,
        "Mean response in minutes, cost of all jobs in USD; shorter and cheaper: per cent below the baseline of the "
        f"same table. {RANGES}",
        ("strategy", *HEADERS),
        tuple((label, *_row(results, case, cases["baseline"], paper)) for label, case in cases.items()),
    )


strategies_table = partial(
    _beside, cases=STRATEGIES, paper=TABLE_4, name="strategies", title="Table 4: strategies on XSEDE"
)
data_table = partial(_beside, cases=WITH_DATA, paper=TABLE_7, name="data", title="Table 7: jobs whose data has to move")


def _row(
    results: DayAheadResults, case: StrategyCase, home: StrategyCase, paper: Mapping[tuple[str, float], CostRow]
) -> tuple[TableCell, ...]:
    theirs, base = paper[case.strategy, case.time_pct], paper["baseline", 25.0]
    return (
        results.of(case, response),
        theirs.response_min,
        results.less_pct(case, home, response),
        100 * (1 - theirs.response_min / base.response_min),
        results.of(case, cost),
        theirs.cost_usd,
        results.less_pct(case, home, cost),
        100 * (1 - theirs.cost_usd / base.cost_usd),
    )


def _changed(
    results: DayAheadResults, cases: Mapping[str, StrategyCase], name: str, title: str, what: str
) -> StudyTable:
    results = results.shared(cases.values())
    return StudyTable(
        name,
        title,
        f"Minutes and USD; shorter and cheaper: per cent below the baseline. Bounded slowdown: a mean. {RANGES}",
        (what, "response", "shorter", "cost", "cheaper", "bounded slowdown"),
        tuple(
            (
                label,
                results.of(case, response),
                results.saved_pct(case, response),
                results.of(case, cost),
                results.saved_pct(case, cost),
                results.of(case, lambda result: result.bounded_slowdown),
            )
            for label, case in cases.items()
        ),
    )


weights_table = partial(
    _changed,
    cases={f"{weight_pct:g} %": StrategyCase("mcmf", weight_pct) for weight_pct in WEIGHTS_PCT},
    name="weights",
    title="Figures 4 and 9: MCMF by the weight of time",
    what="w_t",
)
most_table = partial(
    _changed,
    cases={
        **{"any number" if most is None else str(most): StrategyCase("mcmf", most=most) for most in MOST},
        "any number, jobs of a cycle know of each other": INFORMED,
        "INST, 2": INST,
        "INST, any number": ANY_NUMBER,
    },
    name="most",
    title="Figure 11: MCMF by the jobs that a system takes in a cycle",
    what="MaxQ",
)
shares_table = partial(
    _changed,
    cases={f"{share_pct} %": StrategyCase("mcmf", brokered_pct=share_pct) for share_pct in BROKERED_PCT},
    name="shares",
    title="Figure 10: MCMF by the share of jobs that go to the broker",
    what="f_g",
)


def cycles_table(results: DayAheadResults) -> StudyTable:
    """Return Table 4's responses by the time from cycle to cycle, and how far they are from the paper's."""
    paper_min = [TABLE_4[case.strategy, case.time_pct].response_min for case in STRATEGIES.values()]
    return StudyTable(
        "cycles",
        "Table 4 by the time from cycle to cycle",
        "Mean response in minutes, with two jobs a system and cycle. Off: the factor between ours and the paper's, the "
        f"geometric mean over the strategies, either way. {RANGES}",
        ("cycle", *STRATEGIES, "off"),
        (*(_cycle_row(results, minutes, paper_min) for minutes in CYCLES_MIN), ("paper", *paper_min, None)),
    )


def _cycle_row(results: DayAheadResults, minutes: int, paper_min: Sequence[float]) -> tuple[TableCell, ...]:
    cases = [at_cycle(case, minutes) for case in STRATEGIES.values()]
    cells = [results.shared(cases).of(case, response) for case in cases]
    off = [abs(log(cell.mean / theirs)) for cell, theirs in zip(cells, paper_min, strict=True)]
    return f"{minutes} min", *cells, exp(sum(off) / len(off))


def errors_table(results: DayAheadResults) -> StudyTable:
    """Return Table 5 beside ours."""
    results = results.shared(StrategyCase("mcmf", wrong_h=hours) for hours in WRONG_H)
    return StudyTable(
        "errors",
        "Table 5: MCMF with errors in the predicted waits",
        "Each predicted wait is increased by a random time of up to so many hours, drawn anew each time. Longer and "
        "dearer: per cent above the result without errors. Error: mean error of the predicted waits in minutes. "
        f"{RANGES}",
        ("up to", "error", "response", "longer", "paper", "cost", "dearer", "paper"),
        tuple(_error_row(results, hours) for hours in WRONG_H),
    )


def _error_row(results: DayAheadResults, hours: float) -> tuple[TableCell, ...]:
    case, theirs, base = StrategyCase("mcmf", wrong_h=hours), TABLE_5[hours], TABLE_5[0.0]
    return (
        f"{hours:g} h",
        results.of(case, lambda result: result.wait_error_min),
        results.of(case, response),
        _negated(results.less_pct(case, START, response)),
        100 * (theirs.response_min / base.response_min - 1),
        results.of(case, cost),
        _negated(results.less_pct(case, START, cost)),
        100 * (theirs.cost_usd / base.cost_usd - 1),
    )


def _negated(less: Range) -> Range:
    return Range(-less.mean, -less.high, -less.low)


HALF = StrategyCase("mcmf", brokered_pct=50)
SIZES = (
    f"small, below {SIZE_EDGES_CORE_H[0]:,} core-hours",
    "medium",
    f"large, from {SIZE_EDGES_CORE_H[1]:,} core-hours on",
)


def estimates_table(results: DayAheadResults) -> StudyTable:
    """Return Table 6 beside ours."""
    return StudyTable(
        "estimates",
        "Table 6: by the error of the users' estimates",
        "Reduction of the mean response in per cent under MCMF with w_t = 25 %, by estimate / run time - 1.",
        ("error [%]", "jobs", "than baseline", "paper", "than INST", "paper", "than TWOPRICE", "paper"),
        tuple(_estimates_row(results, number, label) for number, label in enumerate(TABLE_6)),
    )


def _estimates_row(results: DayAheadResults, number: int, label: str) -> tuple[TableCell, ...]:
    cells: list[TableCell] = [label, results.of(START, lambda result: result.by_error_jobs[number]).mean]
    for than, theirs in zip((BASELINE, INST, TWO_PRICE), TABLE_6[label], strict=True):
        cells += [results.less_pct(START, than, lambda result: result.by_error_min[number]), theirs]
    return tuple(cells)


def powers_table(results: DayAheadResults) -> StudyTable:
    """Return Table 8 beside ours: the power of a single job is unknown to the broker, so only the bill changes."""
    return StudyTable(
        "powers",
        "Table 8: the power of jobs, with up to 1 TB of data",
        "Mean response in minutes, and cost in USD if each job draws 60 to 100 %, 60 to 140 % or 100 to 140 % of "
        f"Linpack's power. {RANGES}",
        ("strategy", "power", "response", "paper", "cost", "paper"),
        tuple(_power_row(results, name, number) for name in TABLE_8 for number in range(len(POWERS))),
    )


def _power_row(results: DayAheadResults, name: str, number: int) -> tuple[TableCell, ...]:
    case, theirs = LESS_DATA[name], TABLE_8[name][number]
    bill = results.of(case, lambda result: result.cost_by_power[number])
    return name, POWERS[number].name, results.of(case, response), theirs.response_min, bill, theirs.cost_usd


def sizes_table(results: DayAheadResults) -> StudyTable:
    """Return the values of Figure 5."""
    return StudyTable(
        "sizes",
        "Figure 5: by job size",
        "Mean saving of a job under MCMF with w_t = 25 %: minutes of response, and USD.",
        ("jobs", "number", "response shorter by", "cheaper by"),
        tuple(_size_row(results, number, label) for number, label in enumerate(SIZES)),
    )


def _size_row(results: DayAheadResults, number: int, label: str) -> tuple[TableCell, ...]:
    pairs = list(zip(results.each(BASELINE), results.each(START), strict=False))
    count = [one.by_size_jobs[number] for one, _ in pairs]
    minutes = [(one.by_size_min[number] - other.by_size_min[number]) / one.by_size_jobs[number] for one, other in pairs]
    usd = [(one.by_size_usd[number] - other.by_size_usd[number]) / one.by_size_jobs[number] for one, other in pairs]
    return label, sum(count) / len(count), confidence_of(minutes), confidence_of(usd)


def sites_table(results: DayAheadResults) -> StudyTable:
    """Return the values of Figure 8 by system, and where jobs ran."""
    results = results.shared((START, HALF, BASELINE))
    columns = (
        results.mean_by(START, lambda result: result.fairness),
        results.mean_by(HALF, lambda result: result.fairness),
        results.mean_by(HALF, lambda result: result.fairness_local),
        results.mean_by(BASELINE, lambda result: result.jobs),
        results.mean_by(START, lambda result: result.jobs),
        [_percent(share) for share in results.mean_by(BASELINE, lambda result: result.utilization)],
        [_percent(share) for share in results.mean_by(START, lambda result: result.utilization)],
    )
    return StudyTable(
        "sites",
        "Figure 8: fairness and placement of jobs",
        "Fairness: the geometric mean of baseline response over response of the jobs submitted at a system, if all "
        "jobs use the broker, and if half of them do. Utilization in per cent, from the first counted job to the last "
        "end.",
        (
            "system", "all brokered", "half: brokered", "half: local", "jobs at home", "jobs under MCMF",
            "utilization at home", "under MCMF",
        ),
        tuple((name, *cells) for name, *cells in zip(results.sites, *columns, strict=True)),
    )  # fmt: skip


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
