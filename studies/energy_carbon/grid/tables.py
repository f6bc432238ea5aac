"""The part's tables: savings beside the paper's bands, waits, ECA's limit, and Table IX."""

from itertools import product

from studies.energy_carbon.grid.answers import Answers
from studies.energy_carbon.grid.experiment import Bench, Case
from studies.energy_carbon.grid.paper import (
    AWARE_CHOSEN_SAVED_PCT,
    AWARE_SAVED_PCT,
    CO2_SAVED_PCT,
    FASTEST_SAVED_PCT,
    LATEST_S,
    TABLE_IX,
)
from studies.energy_carbon.grid.plan import LIMITS, LOADS, SELECTIONS, choice, with_limit
from studies.energy_carbon.grid.result import Result
from studies.energy_carbon.plan import DISCIPLINES
from studies.report import Cell, Range, Table

RANGES = "In brackets the 95 % confidence interval of the mean over the replays."
WAYS = tuple((asleep, selection) for asleep in (False, True) for selection in SELECTIONS)[1:]
"""All but the normal scheduler with round-robin, against which they are measured."""


def energy(result: Result) -> float:
    """Return the energy of all clusters [kWh]."""
    return result.energy_kwh


def co2(result: Result) -> float:
    """Return the emissions of all clusters [kg]."""
    return result.co2_kg


def saved_table(answers: Answers) -> Table:
    """Return the energy saved, by scheduler and load."""
    bands = (FASTEST_SAVED_PCT, None, AWARE_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT)
    return Table(
        "energy",
        "Figures 4 to 7: energy of three clusters",
        "Saved of the energy of the same normal scheduler with round-robin, per cent. E: idle nodes are switched off. "
        f"{RANGES}",
        ("load", "scheduler", *_heads()),
        (("", "paper", *map(_band, bands)), *_rows(answers, energy)),
    )


def co2_table(answers: Answers) -> Table:
    """Return the CO2 saved, by scheduler and load."""
    return Table(
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


def _rows(answers: Answers, figure: object) -> tuple[tuple[Cell, ...], ...]:
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


def waits_table(answers: Answers) -> Table:
    """Return mean waits and durations, by scheduler and load."""
    return Table(
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


def _times(answers: Answers, scheduler: str, load: float) -> tuple[Range, ...]:
    each = [choice(scheduler, selection, asleep=False, load=load) for selection in SELECTIONS]
    waits = (answers.of(case, lambda result: result.wait_h) for case in each)
    return (*waits, *(answers.of(case, lambda result: result.duration_h) for case in each))


def limits_table(answers: Answers) -> Table:
    """Return what ECA's limit of queues decides."""
    return Table(
        "limits",
        "ECA by the queue beyond which a cluster is passed over",
        "Energy-aware schedulers. CO2 and energy saved against the normal scheduler with round-robin, per cent; the "
        f"mean wait in hours, and round-robin's. {RANGES}",
        ("load", "scheduler", "limit", "CO2 saved", "energy saved", "wait", "wait of RR"),
        tuple(_limit_row(answers, each) for each in product(LOADS, DISCIPLINES, LIMITS)),
    )


def _limit_row(answers: Answers, of: tuple[float, str, int]) -> tuple[Cell, ...]:
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


def bench_table(answers: Answers) -> Table:
    """Return Table IX beside ours."""
    return Table(
        "table-ix",
        "Table IX: the federated testbed",
        "Energy in kJ; jobs on Juggle, Jufit and Dune, means; to RR and to FP: per cent saved of their energy; CO2 in "
        f"kg. {RANGES}",
        ("selection", "energy", "paper", "jobs", "paper", "to RR", "paper", "to FP", "paper", "CO2", "paper"),
        tuple(_bench_row(answers, column) for column in LATEST_S),
    )


def _bench_row(answers: Answers, column: str) -> tuple[Cell, ...]:
    case, theirs = Bench(column), TABLE_IX[column]
    return (
        column,
        answers.of(case, lambda result: 3600 * result.energy_kwh),
        theirs.energy_kj,
        ", ".join(f"{each:.0f}" for each in answers.mean_by(case, lambda result: result.jobs)),
        ", ".join(str(part.jobs) for part in theirs.parts),
        *_against(answers, case, "RR"),
        *_against(answers, case, "FP"),
        answers.of(case, co2),
        theirs.co2_kg,
    )


def _against(answers: Answers, case: Bench, base: str) -> tuple[Cell, Cell]:
    ours: Case = Bench(base)
    paper_pct = 100 * (1 - TABLE_IX[case.column].energy_kj / TABLE_IX[base].energy_kj)
    return answers.saved_pct(case, ours, energy), paper_pct
