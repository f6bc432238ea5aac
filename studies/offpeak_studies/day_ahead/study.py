"""The part XSEDE as a whole: forecasts the prices, runs the missing experiments, builds the figures and the report."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from offpeak.plugin.federation.metaschedule import need_or_tools
from offpeak.report_tables import Report, StudyTable, folder_for
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.day_ahead.inputs import DAYS, SITES, make_forecasts, places, site_rows
from offpeak_studies.day_ahead.run import DayAheadExperiment, DayAheadResult, StrategyCase, run
from offpeak_studies.day_ahead.tables import (
    FEW,
    INST,
    START,
    STRATEGIES,
    TWO_PRICE,
    DayAheadResults,
    by_weight,
    cost,
    cycles_table,
    data_table,
    errors_table,
    estimates_table,
    most_table,
    planned,
    powers_table,
    response,
    shares_table,
    sites_table,
    sizes_table,
    strategies_table,
    weights_table,
)
from offpeak_studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of

RUN = "offpeak_studies.day_ahead.run"


def digest_of(folder: Path, prices: Iterable[Path]) -> str:
    """Return a digest of the sites' table and the price files."""
    digest = hashlib.sha256((folder / SITES).read_bytes())
    for file in prices:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


TITLE = "Metascheduling in day-ahead markets: Murali and Vadhiyar, re-run"
LOG_NOTE = (
    "jobs: drawn for each of the eight systems after Lublin, Feitelson and Tsafrir; shares, mean sizes and loads are "
    "those of the 4,100 jobs that the authors published; 4,000 jobs at home come before the 10,000 that count"
)
WAIT_NOTE = (
    f"waits: the published predictor, learning at each system; a cycle every {START.period_s // 60} minutes, MaxQ = 2"
)
POWER_NOTE = "power: Linpack's per core at the system where a job runs; energy of idle cores is not counted"

TABLES: tuple[Callable[[DayAheadResults], StudyTable], ...] = (
    strategies_table,
    weights_table,
    errors_table,
    estimates_table,
    data_table,
    powers_table,
    sizes_table,
    sites_table,
    shares_table,
    most_table,
    cycles_table,
)


def day_ahead(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    need_or_tools()
    sites = tuple(row.name for row in site_rows(order.prices))
    folder, out = Path(order.prices or "").resolve(), folder_for(order.out).resolve()
    forecast_note = make_forecasts(places(folder, out), DAYS, order.executor)
    replays = Replays(order.replays, order.seed)
    digest = digest_of(folder, [place.prices for place in places(folder, out).values()])
    keys = {experiment: result_key(RUN, experiment, digest) for experiment in planned(replays)}
    runner: Runner[DayAheadExperiment, DayAheadResult] = Runner(
        partial(run, folder=folder, out=out), TypeAdapter(DayAheadResult)
    )
    results = DayAheadResults(results_of(runner, keys, order, progress), replays, sites)
    notes = (LOG_NOTE, WAIT_NOTE, POWER_NOTE, forecast_note, _replays_note(replays, len(keys)))
    figures = {"trade.svg": trade_svg(results), "hours.svg": hours_svg(results)}
    return Report(TITLE, notes, tuple(table(results) for table in TABLES), figures)


def _replays_note(replays: Replays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of what Table 4 and the claims rest on: {replays.describe_seeds()}; "
        f"of all else at most {FEW}; {counted(count, 'experiment')}"
    )


COLOURS = {"INST": report.ORANGE, "TWOPRICE": report.GREEN, "baseline": report.GREY}
PANELS = (("load_h", "Mason"), ("load_h", "Gordon"), ("power_w", "Blacklight"), ("power_w", "Lonestar"))
CROWDED_PCT = 10.0
"""The weight whose label is below its mark, because other marks are beside it."""


def trade_svg(results: DayAheadResults) -> str:
    """Return the figure: cost against response, MCMF as a line by w_t, the other strategies as dots."""
    results = results.shared((*by_weight(), *STRATEGIES.values()))

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        axes = panels[0]
        axes.set_xlabel("mean response [min]")
        axes.set_ylabel("cost of all jobs [USD]")
        minutes = [results.of(case, response).mean for case in by_weight()]
        usd = [results.of(case, cost).mean for case in by_weight()]
        report.plot_line(axes, "MCMF by w_t", report.BLUE, minutes, usd, "o")
        for case, x, y in zip(by_weight(), minutes, usd, strict=True):
            below = case.time_pct == CROWDED_PCT
            axes.annotate(
                f"{case.time_pct:g} %", (x, y), (6, -12 if below else 5), textcoords="offset points", fontsize="small"
            )
        for name, colour in COLOURS.items():
            case = STRATEGIES[name]
            report.plot_dots(axes, name, colour, [results.of(case, response).mean], [results.of(case, cost).mean])
        axes.margins(0.08)
        report.add_legend(figure, axes, 1 + len(COLOURS))

    return report.draw_figure(1, 1, height_in=3.8, draw=draw)


def hours_svg(results: DayAheadResults) -> str:
    """Return the figure: loads of Mason and Gordon, and power of Blacklight and Lonestar, over the first 100 hours."""
    cases = {"baseline": STRATEGIES["baseline"], "MCMF": by_weight()[2], "INST": INST, "TWOPRICE": TWO_PRICE}
    colours = {**COLOURS, "MCMF": report.BLUE}

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for (column, site), axes in zip(PANELS, panels, strict=True):
            number, scale = results.sites.index(site), 1.0 if column == "load_h" else 1e-3
            axes.set_title(f"{site}: {'load [h]' if column == 'load_h' else 'power [kW]'}")
            for name, case in cases.items():
                values = _first_replay(results, case, column, number)
                report.plot_line(axes, name, colours[name], range(len(values)), [scale * value for value in values])
            axes.set_ylim(bottom=0.0)
            axes.set_xlim(left=0.0)
        panels[-1].set_xlabel("hour")
        report.add_legend(figure, panels[0], len(cases))

    return report.draw_figure(len(PANELS), 1, height_in=7.5, draw=draw)


def _first_replay(results: DayAheadResults, case: StrategyCase, column: str, site: int) -> Sequence[float]:
    result = results.each(case)[0]
    return (result.load_h if column == "load_h" else result.power_w)[site]
