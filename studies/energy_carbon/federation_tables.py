"""What the part federation runs, and its tables: savings beside the paper's bands, waits, ECA's limit, and Table
IX.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from offpeak.model.constants import HOUR_S
from studies.energy_carbon.federation import (
    AWARE_CHOSEN_SAVED_PCT,
    AWARE_SAVED_PCT,
    CO2_SAVED_PCT,
    FASTEST_SAVED_PCT,
    LATEST_S,
    TABLE_IX,
    FederationCase,
    FederationExperiment,
    FederationResult,
    MeasuredCase,
    SelectionCase,
)
from studies.energy_carbon.plan import DISCIPLINES
from studies.report import Range, StudyTable, TableCell, confidence_of

SELECTIONS = {"RR": "round-robin", "FP": "fastest", "ECA": "eca-queue"}
LOADS = (0.9, 1.2)
LOAD, LIMIT = 0.9, 50
"""Where ECA's jobs wait about as long as round-robin's with backfilling, as the paper has it (Figure 8)."""
LIMITS = (10, 50, 100, 200)


def choice(scheduler: str, selection: str, *, asleep: bool, load: float = LOAD) -> SelectionCase:
    """Return a case by the paper's names."""
    limit = LIMIT if selection == "ECA" else 0
    return SelectionCase(DISCIPLINES[scheduler], asleep, SELECTIONS[selection], load, limit)


def with_limit(scheduler: str, limit: int, load: float) -> SelectionCase:
    """Return ECA on an energy-aware scheduler with that limit of queues."""
    return replace(choice(scheduler, "ECA", asleep=True, load=load), queue_limit=limit)


def cases() -> list[FederationCase]:
    """Return all cases, each once, the starting point first."""
    every: list[FederationCase] = [MeasuredCase(column) for column in TABLE_IX]
    for load in (LOAD, *LOADS):
        every += [
            choice(scheduler, selection, asleep=asleep, load=load)
            for scheduler in DISCIPLINES
            for selection in SELECTIONS
            for asleep in (False, True)
        ]
    every += [with_limit(scheduler, limit, load) for load in LOADS for scheduler in DISCIPLINES for limit in LIMITS]
    return list(dict.fromkeys(every))


def experiments(case: FederationCase, count: int, seed: int) -> list[FederationExperiment]:
    """Return the experiments of a case, one a replay."""
    return [FederationExperiment(case, seed, replay) for replay in range(count)]


def planned(count: int, seed: int) -> tuple[FederationExperiment, ...]:
    """Return all experiments, replay by replay."""
    return tuple(experiments(case, count, seed)[replay] for replay in range(count) for case in cases())


@dataclass(frozen=True)
class FederationResults:
    """All results of the part, `count` replays of each case."""

    results: Mapping[FederationExperiment, FederationResult]
    count: int
    seed: int

    def of(self, case: FederationCase, figure: Callable[[FederationResult], float]) -> Range:
        """Return a figure of the case over the replays."""
        return confidence_of([figure(each) for each in self._each(case)])

    def saved_pct(
        self, case: FederationCase, base: FederationCase, figure: Callable[[FederationResult], float]
    ) -> Range:
        """Return by how much per cent a figure is lower than under another case in the same replay."""
        pairs = zip(self._each(case), self._each(base), strict=True)
        return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in pairs])

    def mean_by(self, case: FederationCase, column: Callable[[FederationResult], Sequence[float]]) -> list[float]:
        """Return the means over the replays of a column."""
        return [sum(values) / len(values) for values in zip(*map(column, self._each(case)), strict=True)]

    def _each(self, case: FederationCase) -> list[FederationResult]:
        return [self.results[each] for each in experiments(case, self.count, self.seed)]


RANGES = "In brackets the 95 % confidence interval of the mean over the replays."
WAYS = tuple((asleep, selection) for asleep in (False, True) for selection in SELECTIONS)[1:]
"""All but the normal scheduler with round-robin, against which they are measured."""


def energy(result: FederationResult) -> float:
    """Return the energy of all clusters [kWh]."""
    return result.energy_kwh


def co2(result: FederationResult) -> float:
    """Return the emissions of all clusters [kg]."""
    return result.co2_kg


def saved_table(answers: FederationResults) -> StudyTable:
    """Return the energy saved, by scheduler and load."""
    bands = (FASTEST_SAVED_PCT, None, AWARE_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT)
    return StudyTable(
        "energy",
        "Figures 4 to 7: energy of three clusters",
        "Saved of the energy of the same normal scheduler with round-robin, per cent. E: idle nodes are switched off. "
        f"{RANGES}",
        ("load", "scheduler", *_heads()),
        (("", "paper", *map(_band, bands)), *_rows(answers, energy)),
    )


def co2_table(answers: FederationResults) -> StudyTable:
    """Return the CO2 saved, by scheduler and load."""
    return StudyTable(
        "co2",
        "Figures 11 and 12: CO2 of three clusters",
        f"Saved of the CO2 of the same normal scheduler with round-robin, per cent. {RANGES}",
        ("load", "scheduler", *_heads()),
        (("", "paper", None, None, None, None, _band(CO2_SAVED_PCT)), *_rows(answers, co2)),
    )


def _heads() -> tuple[str, ...]:
    return tuple(f"{'E, ' if asleep else ''}{selection}" for asleep, selection in WAYS)


def _band(band: tuple[int, int] | None) -> str | None:
    return None if band is None else f"{band[0]} to {band[1]}"


def _rows(answers: FederationResults, figure: object) -> tuple[tuple[TableCell, ...], ...]:
    assert callable(figure)
    return tuple(
        (
            f"{100 * load:.0f} %",
            scheduler,
            *(
                answers.saved_pct(
                    choice(scheduler, selection, asleep=asleep, load=load),
                    choice(scheduler, "RR", asleep=False, load=load),
                    figure,
                )
                for asleep, selection in WAYS
            ),
        )
        for load in LOADS
        for scheduler in DISCIPLINES
    )


def waits_table(answers: FederationResults) -> StudyTable:
    """Return mean waits and durations, by scheduler and load."""
    return StudyTable(
        "waits",
        "Figures 8 and 9: waits, and until all jobs are done",
        f"Hours: the mean wait of a job and the time to the last end, nodes that stay on. {RANGES}",
        ("load", "scheduler", *(f"{what} {name}" for what in ("wait", "duration") for name in SELECTIONS)),
        tuple(
            (f"{100 * load:.0f} %", scheduler, *_times(answers, scheduler, load))
            for load in LOADS
            for scheduler in DISCIPLINES
        ),
    )


def _times(answers: FederationResults, scheduler: str, load: float) -> tuple[Range, ...]:
    each = [choice(scheduler, selection, asleep=False, load=load) for selection in SELECTIONS]
    waits = (answers.of(case, lambda result: result.wait_h) for case in each)
    return (*waits, *(answers.of(case, lambda result: result.duration_h) for case in each))


def limits_table(answers: FederationResults) -> StudyTable:
    """Return what ECA's limit of queues decides."""
    return StudyTable(
        "limits",
        "ECA by the queue beyond which a cluster is passed over",
        "Energy-aware schedulers. CO2 and energy saved against the normal scheduler with round-robin, per cent; the "
        f"mean wait in hours, and round-robin's. {RANGES}",
        ("load", "scheduler", "limit", "CO2 saved", "energy saved", "wait", "wait of RR"),
        tuple(_limit_row(answers, each) for each in product(LOADS, DISCIPLINES, LIMITS)),
    )


def _limit_row(answers: FederationResults, of: tuple[float, str, int]) -> tuple[TableCell, ...]:
    load, scheduler, limit = of
    case, base = with_limit(scheduler, limit, load), choice(scheduler, "RR", asleep=False, load=load)
    return (
        f"{100 * load:.0f} %",
        f"E-{scheduler}",
        str(limit),
        answers.saved_pct(case, base, co2),
        answers.saved_pct(case, base, energy),
        answers.of(case, lambda result: result.wait_h),
        answers.of(base, lambda result: result.wait_h),
    )


def bench_table(answers: FederationResults) -> StudyTable:
    """Return Table IX beside ours."""
    return StudyTable(
        "table-ix",
        "Table IX: the federated testbed",
        "Energy in kJ; jobs on Juggle, Jufit and Dune, means; to RR and to FP: per cent saved of their energy; CO2 in "
        f"kg. {RANGES}",
        ("selection", "energy", "paper", "jobs", "paper", "to RR", "paper", "to FP", "paper", "CO2", "paper"),
        tuple(_bench_row(answers, column) for column in LATEST_S),
    )


def _bench_row(answers: FederationResults, column: str) -> tuple[TableCell, ...]:
    case, theirs = MeasuredCase(column), TABLE_IX[column]
    return (
        column,
        answers.of(case, lambda result: HOUR_S * result.energy_kwh),
        theirs.energy_kj,
        ", ".join(f"{each:.0f}" for each in answers.mean_by(case, lambda result: result.jobs)),
        ", ".join(str(part.jobs) for part in theirs.parts),
        *_against(answers, case, "RR"),
        *_against(answers, case, "FP"),
        answers.of(case, co2),
        theirs.co2_kg,
    )


def _against(answers: FederationResults, case: MeasuredCase, base: str) -> tuple[TableCell, TableCell]:
    ours: FederationCase = MeasuredCase(base)
    paper_pct = 100 * (1 - TABLE_IX[case.column].energy_kj / TABLE_IX[base].energy_kj)
    return answers.saved_pct(case, ours, energy), paper_pct
