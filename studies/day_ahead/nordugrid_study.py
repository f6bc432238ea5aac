"""The part NorduGrid as a whole: strategies beside the paper's, on grids that are drawn anew for each replay."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadInput
from offpeak.text import counted
from plugin.federation.flow import need_or_tools
from studies.day_ahead.nordugrid import (
    DAYS,
    JOBS,
    PERIOD_S,
    SYSTEMS,
    TABLE_4,
    TIME_PCT,
    NordugridExperiment,
    NordugridResult,
    parse_result,
    places,
    run,
)
from studies.day_ahead.prices import make_forecasts
from studies.report import Range, Report, StudyTable, TableCell, confidence_of, folder_for
from studies.resumable import Progress, Runner, StudyOrder, results_of

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
    "jobs: drawn after Lublin, Feitelson and Tsafrir, as many an hour and as long on average as the paper's; 4,000 at "
    f"home before 10,000 that count; a cycle every {PERIOD_S // 60} minutes, MaxQ any number"
)


def nordugrid(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput without the folder of prices."""
    need_or_tools()
    if order.logs is not None:
        raise BadInput("day-ahead replays no logs: its jobs are drawn", hint="leave --logs out")
    zones, folder, out = places(order.prices, order.out), Path(order.prices or ""), folder_for(order.out)
    forecast_note = make_forecasts(zones, DAYS, order.processes)
    kept = [place.kept for place in zones.values()]
    keys = {each: key_of(each, kept) for each in planned(order.replays, order.seed)}
    runner: Runner[NordugridExperiment, NordugridResult] = Runner(
        partial(run, folder=folder, out=out), parse_result, partial(_warm_up, folder, out)
    )
    results = results_of(runner, keys, order, progress)
    by_strategy = {
        label: [results[each] for each in experiments(strategy, order.replays, order.seed)]
        for label, strategy in STRATEGIES.items()
    }
    notes = (GRID_NOTE, LOG_NOTE, forecast_note, f"{counted(order.replays, 'replay')}, each with its own grid")
    return Report(TITLE, notes, (table_of(by_strategy),), {})


def experiments(strategy: tuple[str, float], count: int, seed: int) -> list[NordugridExperiment]:
    """Return the experiments of a strategy, one a replay."""
    return [NordugridExperiment(*strategy, seed, replay) for replay in range(count)]


def planned(count: int, seed: int) -> tuple[NordugridExperiment, ...]:
    """Return all experiments, replay by replay."""
    each = [experiments(strategy, count, seed) for strategy in STRATEGIES.values()]
    return tuple(experiment for replay in zip(*each, strict=True) for experiment in replay)


def table_of(by_strategy: dict[str, list[NordugridResult]]) -> StudyTable:
    """Return Table 4's second half beside ours; costs are of 1,000 jobs, as the paper has twelve times as many."""
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
        confidence_of([each.response_min for each in mine]),
        None if theirs is None else theirs.response_min,
        _less_pct(mine, home, lambda each: each.response_min),
        None if theirs is None else 100 * (1 - theirs.response_min / base.response_min),
        confidence_of([1000 * each.cost_eur for each in mine]),
        None if theirs is None else 1000 * theirs.cost / JOBS,
        _less_pct(mine, home, lambda each: each.cost_eur),
        None if theirs is None else 100 * (1 - theirs.cost / base.cost),
        confidence_of([100 * each.busiest_share for each in mine]),
    )


def _less_pct(
    mine: list[NordugridResult], home: list[NordugridResult], figure: Callable[[NordugridResult], float]
) -> Range:
    return confidence_of([100 * (1 - figure(one) / figure(other)) for one, other in zip(mine, home, strict=True)])


def key_of(experiment: NordugridExperiment, forecasts: list[Path]) -> str:
    """Name the result of an experiment under the present code; the forecasts' files are named after their prices."""
    told = json.dumps([asdict(experiment), [each.name for each in forecasts], _code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for source in sources_of(Path(__file__).with_name("nordugrid.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _warm_up(folder: Path, out: Path) -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    run(NordugridExperiment("mcmf", TIME_PCT, 0, 0, jobs=20, history=400), folder, out)
