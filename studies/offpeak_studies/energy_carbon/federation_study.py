"""The part federation as a whole: its cases, its tables beside the paper's, its figure and its report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter

from pydantic import TypeAdapter

from offpeak.display import percent_text
from offpeak.model.constants import HOUR_S
from offpeak.report_tables import Range, Report, StudyTable, TableCell
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.energy_carbon.federation import (
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
    run,
)
from offpeak_studies.energy_carbon.single_site import DISCIPLINES
from offpeak_studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of

SELECTIONS = {"RR": "round-robin", "FP": "fastest", "ECA": "eca-queue"}
LOADS = (0.9, 1.2)
LOAD, LIMIT = 0.9, 50
"""With these, jobs under ECA wait about as long as under round-robin with backfilling, as in the paper (Figure 8)."""
LIMITS = (10, 50, 100, 200)


def choice(scheduler: str, selection: str, *, asleep: bool, load: float = LOAD) -> SelectionCase:
    """Return a case by the paper's names."""
    limit = LIMIT if selection == "ECA" else 0
    return SelectionCase(DISCIPLINES[scheduler], asleep, SELECTIONS[selection], load, limit)


def with_limit(scheduler: str, limit: int, load: float) -> SelectionCase:
    """Return ECA on an energy-aware scheduler with that limit of the queue."""
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


def experiments(case: FederationCase, replays: Replays) -> list[FederationExperiment]:
    """Return the experiments of a case, one for each replay."""
    return [FederationExperiment(case, replays.seed, replay) for replay in range(replays.count)]


def planned(replays: Replays) -> tuple[FederationExperiment, ...]:
    """Return all experiments, replay by replay."""
    return tuple(experiments(case, replays)[replay] for replay in range(replays.count) for case in cases())


@dataclass(frozen=True)
class FederationResults:
    """All results of the part."""

    results: Mapping[FederationExperiment, FederationResult]
    replays: Replays

    def each(self, case: FederationCase) -> list[FederationResult]:
        """Return the results of a case, one for each replay."""
        return [self.results[experiment] for experiment in experiments(case, self.replays)]

    def of(self, case: FederationCase, figure: Callable[[FederationResult], float]) -> Range:
        """Return a figure of the case over the replays."""
        return report.confidence_of([figure(result) for result in self.each(case)])

    def saved_pct(
        self, case: FederationCase, base: FederationCase, figure: Callable[[FederationResult], float]
    ) -> Range:
        """Return by how much per cent a figure is lower than under another case in the same replay."""
        return report.less_pct(self.each(case), self.each(base), figure)


RANGES = "In brackets the 95 % confidence interval of the mean over the replays."
WAYS = tuple((asleep, selection) for asleep in (False, True) for selection in SELECTIONS)[1:]
"""All but the normal scheduler with round-robin, against which they are measured."""


energy: Callable[[FederationResult], float] = attrgetter("energy_kwh")
co2: Callable[[FederationResult], float] = attrgetter("co2_kg")


def saved_table(results: FederationResults) -> StudyTable:
    """Return the energy saved, by scheduler and load."""
    bands = (FASTEST_SAVED_PCT, None, AWARE_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT, AWARE_CHOSEN_SAVED_PCT)
    return StudyTable(
        "energy",
        "Figures 4 to 7: energy of three clusters",
        "Energy saved compared with the same normal scheduler with round-robin, per cent. E: idle nodes are switched "
        f"off. {RANGES}",
        ("load", "scheduler", *_heads()),
        (("", "paper", *map(_band, bands)), *_rows(results, energy)),
    )


def co2_table(results: FederationResults) -> StudyTable:
    """Return the CO2 saved, by scheduler and load."""
    return StudyTable(
        "co2",
        "Figures 11 and 12: CO2 of three clusters",
        f"CO2 saved compared with the same normal scheduler with round-robin, per cent. {RANGES}",
        ("load", "scheduler", *_heads()),
        (("", "paper", None, None, None, None, _band(CO2_SAVED_PCT)), *_rows(results, co2)),
    )


def _heads() -> tuple[str, ...]:
    return tuple(f"{'E, ' if asleep else ''}{selection}" for asleep, selection in WAYS)


def _band(band: tuple[int, int] | None) -> str | None:
    return None if band is None else f"{band[0]} to {band[1]}"


def _rows(results: FederationResults, figure: Callable[[FederationResult], float]) -> tuple[tuple[TableCell, ...], ...]:
    return tuple(
        (
            percent_text(100 * load),
            scheduler,
            *(
                results.saved_pct(
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


def waits_table(results: FederationResults) -> StudyTable:
    """Return mean waits and durations, by scheduler and load."""
    return StudyTable(
        "waits",
        "Figures 8 and 9: waits, and time until all jobs have ended",
        f"Hours: the mean wait of a job and the time to the last end, nodes that stay on. {RANGES}",
        ("load", "scheduler", *(f"{what} {name}" for what in ("wait", "duration") for name in SELECTIONS)),
        tuple(
            (percent_text(100 * load), scheduler, *_times(results, scheduler, load))
            for load in LOADS
            for scheduler in DISCIPLINES
        ),
    )


def _times(results: FederationResults, scheduler: str, load: float) -> tuple[Range, ...]:
    each = [choice(scheduler, selection, asleep=False, load=load) for selection in SELECTIONS]
    waits = (results.of(case, lambda result: result.wait_h) for case in each)
    return (*waits, *(results.of(case, lambda result: result.duration_h) for case in each))


def limits_table(results: FederationResults) -> StudyTable:
    """Return the effect of ECA's limit of the queue."""
    return StudyTable(
        "limits",
        "ECA by the queue length above which it skips a cluster",
        "Energy-aware schedulers. CO2 and energy saved compared with the normal scheduler with round-robin, per "
        f"cent; the mean wait in hours, also for round-robin. {RANGES}",
        ("load", "scheduler", "limit", "CO2 saved", "energy saved", "wait", "wait of RR"),
        tuple(_limit_row(results, combination) for combination in product(LOADS, DISCIPLINES, LIMITS)),
    )


def _limit_row(results: FederationResults, of: tuple[float, str, int]) -> tuple[TableCell, ...]:
    load, scheduler, limit = of
    case, base = with_limit(scheduler, limit, load), choice(scheduler, "RR", asleep=False, load=load)
    return (
        percent_text(100 * load),
        f"E-{scheduler}",
        str(limit),
        results.saved_pct(case, base, co2),
        results.saved_pct(case, base, energy),
        results.of(case, lambda result: result.wait_h),
        results.of(base, lambda result: result.wait_h),
    )


def bench_table(results: FederationResults) -> StudyTable:
    """Return Table IX beside ours."""
    return StudyTable(
        "table-ix",
        "Table IX: the federated testbed",
        "Energy in kJ; jobs on Juggle, Jufit and Dune, means; to RR and to FP: per cent saved of their energy; CO2 in "
        f"kg. {RANGES}",
        ("selection", "energy", "paper", "jobs", "paper", "to RR", "paper", "to FP", "paper", "CO2", "paper"),
        tuple(_bench_row(results, column) for column in LATEST_S),
    )


def _bench_row(results: FederationResults, column: str) -> tuple[TableCell, ...]:
    case, theirs = MeasuredCase(column), TABLE_IX[column]
    return (
        column,
        results.of(case, lambda result: HOUR_S * result.energy_kwh),
        theirs.energy_kj,
        ", ".join(f"{mean:.0f}" for mean in report.column_means(result.jobs for result in results.each(case))),
        ", ".join(str(part.jobs) for part in theirs.parts),
        *_against(results, case, "RR"),
        *_against(results, case, "FP"),
        results.of(case, co2),
        theirs.co2_kg,
    )


def _against(results: FederationResults, case: MeasuredCase, base: str) -> tuple[TableCell, TableCell]:
    ours: FederationCase = MeasuredCase(base)
    paper_pct = 100 * (1 - TABLE_IX[case.column].energy_kj / TABLE_IX[base].energy_kj)
    return results.saved_pct(case, ours, energy), paper_pct


SHOWN = (
    ("FP", False, "energy", FASTEST_SAVED_PCT),
    ("RR", True, "energy", AWARE_SAVED_PCT),
    ("FP", True, "energy", AWARE_CHOSEN_SAVED_PCT),
    ("ECA", True, "energy", AWARE_CHOSEN_SAVED_PCT),
    ("ECA", True, "CO2", CO2_SAVED_PCT),
)


def federation_svg(results: FederationResults) -> str:
    """Return the figure at the starting point's load: savings with their confidence intervals, on the paper's bands."""
    rows = [(shown, scheduler) for shown in SHOWN for scheduler in DISCIPLINES]

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        axes = panels[0]
        report.label_rows(
            axes,
            [
                f"{'E-' if asleep else ''}{scheduler} {selection}, {what}"
                for (selection, asleep, what, _), scheduler in rows
            ],
        )
        bands = [band for (_, _, _, band), _ in rows]
        widths = [high - low for low, high in bands]
        axes.barh(range(len(rows)), widths, 0.9, left=[low for low, _ in bands], color=report.BAND, label="paper")
        for what, (colour, figure_of) in {"energy": (report.BLUE, energy), "CO2": (report.GREEN, co2)}.items():
            saved = {
                at: results.saved_pct(
                    choice(scheduler, selection, asleep=asleep), choice(scheduler, "RR", asleep=False), figure_of
                )
                for at, ((selection, asleep, shown, _), scheduler) in enumerate(rows)
                if shown == what
            }
            report.plot_ranges(axes, what, colour, list(saved), list(saved.values()))
        axes.set_xlim(0.0, 60.0)
        axes.set_xlabel("saved [%]")
        report.add_legend(figure, axes, 3)

    return report.draw_figure(1, 1, height_in=1.0 + 0.24 * len(rows), draw=draw)


TITLE = "Energy and carbon aware scheduling: Majanen, Mämmelä and Giesler's federations, re-run"
RUN = "offpeak_studies.energy_carbon.federation"
CLUSTERS_NOTE = (
    "clusters: those of Table III, with 30, 40 and 50 nodes of the class dune and emissions by Table I, each charged "
    "until the last job of all has ended; 1,500 jobs of Table II with random arrivals at a load (their requests "
    f"divided by the node time of all 120 nodes until the last submission) of {percent_text(100 * LOAD)} if not stated "
    "otherwise"
)
ECA_NOTE = f"ECA: least CO2 among clusters with at most {LIMIT} jobs in the queue, FP where all have more"
BENCH_NOTE = (
    "testbed: 135 jobs, one a second, a tenth of them of 8 nodes that only Juggle has, the others of 8 cores; run "
    "times by LINPACK's ranks; each cluster draws the mean of the powers in Table IX until its own last job has ended"
)


def federation(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    replays = Replays(order.replays, order.seed)
    keys = {experiment: result_key(RUN, experiment) for experiment in planned(replays)}
    runner = Runner(run, TypeAdapter(FederationResult))
    results = FederationResults(results_of(runner, keys, order, progress), replays)
    tables = (saved_table, co2_table, waits_table, limits_table, bench_table)
    replays_note = f"{replays.describe()}: {replays.describe_seeds()}; {counted(len(keys), 'experiment')}"
    notes = (CLUSTERS_NOTE, ECA_NOTE, BENCH_NOTE, replays_note)
    return Report(TITLE, notes, tuple(table(results) for table in tables), {"federation.svg": federation_svg(results)})
