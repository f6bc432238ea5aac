"""The part NorduGrid as a whole: strategies and the paper's figures, on grids that are drawn again for each replay."""

from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from offpeak.plugin.federation.metaschedule import need_or_tools
from offpeak.report_tables import Report, StudyTable, TableCell, folder_for
from offpeak.text import counted
from offpeak_studies.day_ahead.inputs import make_forecasts
from offpeak_studies.day_ahead.nordugrid import (
    DAYS,
    JOBS,
    PERIOD_S,
    SYSTEMS,
    TABLE_4,
    TIME_PCT,
    NordugridExperiment,
    NordugridResult,
    places,
    run,
)
from offpeak_studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of
from offpeak_studies.report import confidence_of, less_pct

RUN = "offpeak_studies.day_ahead.nordugrid"
TITLE = "Metascheduling in day-ahead markets: NorduGrid with a grid and a workload that are drawn"
STRATEGIES = {
    "baseline": ("baseline", TIME_PCT),
    "MCMF, w_t = 92.5 %": ("mcmf", TIME_PCT),
    "TWOPRICE, w_t = 92.5 %": ("two-price", TIME_PCT),
    "INST": ("inst", TIME_PCT),
    "MCMF, w_t = 0 %": ("mcmf", 0.0),
    "MCMF, w_t = 100 %": ("mcmf", 100.0),
}
GRID_NOTE = (
    f"grid: {SYSTEMS} systems with the cores of the paper's together, drawn for each replay: sizes by rank, processors "
    "from data sheets, 26 systems in zones with prices by the hour and 24 with fixed ones"
)
LOG_NOTE = (
    "jobs: drawn after Lublin, Feitelson and Tsafrir, with the paper's rate and mean length; 4,000 at home before the "
    f"10,000 that count; a cycle every {PERIOD_S // 60} minutes, MaxQ any number"
)


def nordugrid(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    need_or_tools()
    zones, folder = places(order.prices, order.out), Path(order.prices or "").resolve()
    out = folder_for(order.out).resolve()
    forecast_note = make_forecasts(zones, DAYS, order.executor)
    replays = Replays(order.replays, order.seed)
    kept = [place.kept for place in zones.values()]
    keys = {experiment: key_of(experiment, kept) for experiment in planned(replays)}
    runner: Runner[NordugridExperiment, NordugridResult] = Runner(
        partial(run, folder=folder, out=out), TypeAdapter(NordugridResult)
    )
    results = results_of(runner, keys, order, progress)
    by_strategy = {
        label: [results[experiment] for experiment in experiments(strategy, replays)]
        for label, strategy in STRATEGIES.items()
    }
    notes = (GRID_NOTE, LOG_NOTE, forecast_note, f"{counted(order.replays, 'replay')}, each with its own grid")
    return Report(TITLE, notes, (table_of(by_strategy),), {})


def key_of(experiment: NordugridExperiment, forecasts: list[Path]) -> str:
    """Return the key of an experiment's result; the files of forecasts are named after their prices."""
    return result_key(RUN, experiment, [file.name for file in forecasts])


def experiments(strategy: tuple[str, float], replays: Replays) -> list[NordugridExperiment]:
    """Return the experiments of a strategy, one for each replay."""
    return [NordugridExperiment(*strategy, replays.seed, replay) for replay in range(replays.count)]


def planned(replays: Replays) -> tuple[NordugridExperiment, ...]:
    """Return all experiments, replay by replay."""
    by_strategy = [experiments(strategy, replays) for strategy in STRATEGIES.values()]
    return tuple(experiment for replay in zip(*by_strategy, strict=True) for experiment in replay)


def table_of(by_strategy: dict[str, list[NordugridResult]]) -> StudyTable:
    """Return the second half of Table 4 beside ours; costs are of 1,000 jobs, as the paper has 12 times as many."""
    return StudyTable(
        "strategies",
        "Table 4: strategies on NorduGrid",
        "Mean response [min], cost of 1,000 jobs in EUR; shorter and cheaper: per cent below the baseline; busiest: "
        "per cent of the jobs at the system that got most. In brackets the 95 % confidence interval of the mean.",
        ("strategy", "response", "paper", "shorter", "paper", "cost", "paper", "cheaper", "paper", "busiest"),
        tuple(_row(label, mine, by_strategy["baseline"]) for label, mine in by_strategy.items()),
    )


def _row(label: str, mine: list[NordugridResult], home: list[NordugridResult]) -> tuple[TableCell, ...]:
    theirs, base = TABLE_4.get(label), TABLE_4["baseline"]
    return (
        label,
        confidence_of([result.response_min for result in mine]),
        None if theirs is None else theirs.response_min,
        less_pct(mine, home, lambda each: each.response_min),
        None if theirs is None else 100 * (1 - theirs.response_min / base.response_min),
        confidence_of([1000 * result.cost_eur for result in mine]),
        None if theirs is None else 1000 * theirs.cost / JOBS,
        less_pct(mine, home, lambda each: each.cost_eur),
        None if theirs is None else 100 * (1 - theirs.cost / base.cost),
        confidence_of([100 * result.busiest_share for result in mine]),
    )
