"""The study as a whole: tables 1 to 3 and figures 1 to 8 beside the paper's, for every solver in every scenario."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from pydantic import TypeAdapter

from offpeak.display import percent_text
from offpeak.model.constants import DAY_S
from offpeak.report_tables import Report, StudyTable, TableCell
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.harness import Progress, Runner, StudyOrder, result_key, results_of
from offpeak_studies.profit_cooling.run import (
    DAYS,
    LEAST_W,
    NODE_CORES,
    NODES,
    PRICE_PER_KWH,
    REVENUE_PER_CORE_H,
    SCENARIOS,
    WIDEST,
    CoolingExperiment,
    CoolingResult,
    curie_jobs,
    find_log,
    least_pue,
    run,
)
from offpeak_studies.profit_cooling.solvers import RULE_BASED


@dataclass(frozen=True)
class PublishedGains:
    """A scenario's row: gains over the best rule-based scheduler, `daily` in EUR.

    The gains by second are those of table 3, per cent of profit. `over_default_pct` is the gain of `best_search` over
    the default search.
    """

    profit_pct: float
    makespan_pct: float
    pue: float
    daily: float
    multi_pct_per_s: float
    delay_pct_per_s: float
    relaxation_pct_per_s: float
    best_search: str
    over_default_pct: float


PAPER: Mapping[str, PublishedGains] = {
    scenario: PublishedGains(*row)
    for scenario, row in {
        "air winter": (7.71, 1.85, 1.11, 20144.28, 0.0030658, 1e-7, 3e-7, "delay", 10.451758),
        "air summer": (7.66, 1.85, 1.43, 20222.91, 0.0031243, 5e-7, -3e-7, "delay", 10.51854),
        "hybrid winter": (7.86, 1.85, 1.00, 20227.90, 0.0031372, 1e-7, -1e-7, "delay", 10.753464),
        "hybrid summer": (7.95, 1.85, 1.09, 20249.67, 0.0031320, -9e-7, 2e-7, "relaxation", 10.36506),
    }.items()
}

Results = Mapping[tuple[str, str], CoolingResult]
"""By scenario and solver."""

SEARCHES = ("multi", "relaxation", "delay", "neighbourhood")


def gain_pct(value: float, base: float) -> float:
    """Return by how many per cent a value is above the base."""
    return 100 * (value / base - 1)


def best(results: Results, scenario: str, solvers: tuple[str, ...]) -> str:
    """Return the solver with the largest profit at the last submission."""
    return max(solvers, key=lambda solver: results[scenario, solver].profit_then)


def always_full(scenario: str) -> float:
    """Return the profit of a machine that is always full of the jobs of the lowest power."""
    per_core_h = REVENUE_PER_CORE_H - LEAST_W / 1000 * least_pue(SCENARIOS[scenario]) * PRICE_PER_KWH
    return NODES * NODE_CORES * 24 * DAYS * per_core_h


RULES = tuple(RULE_BASED)
STRICT = tuple(solver for solver in RULE_BASED if solver.startswith("strict"))


def gains_table(results: Results) -> StudyTable:
    """Return the gains of tables 1 and 2 over the best rule-based schedulers."""
    return StudyTable(
        "gains",
        "Tables 1 and 2: our best search against rule-based schedulers",
        "Profit at the last submission, in per cent above the best rule-based scheduler, strict or not, and above the "
        "best strict one. No plan: the upper bound, the gain of a machine that is always full of the jobs with the "
        "lowest power.",
        (
            "scenario", "best search", "best rule", "over it, %", "no plan", "best strict rule", "over that, %",
            "no plan", "over strict EST, %", "paper",
        ),
        tuple(_gains_row(results, scenario) for scenario in SCENARIOS),
    )  # fmt: skip


def _gains_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    search, rule, strict = _best_of_each(results, scenario)
    ours = results[scenario, search].profit_then
    cells: list[TableCell] = [scenario, search]
    for solver in (rule, strict):
        theirs = results[scenario, solver].profit_then
        cells += [solver, gain_pct(ours, theirs), gain_pct(always_full(scenario), theirs)]
    return *cells, gain_pct(ours, results[scenario, "strict EST"].profit_then), PAPER[scenario].profit_pct


def _best_of_each(results: Results, scenario: str) -> tuple[str, str, str]:
    """Return the best search, the best rule-based scheduler and the best strict one."""
    return best(results, scenario, SEARCHES), best(results, scenario, RULES), best(results, scenario, STRICT)


def makespans_table(results: Results) -> StudyTable:
    """Return makespan, daily gain and PUE of tables 1 and 2."""
    return StudyTable(
        "makespans",
        "Tables 1 and 2: makespan, daily gain and PUE",
        "Makespan in days, of the rule-based scheduler with the shortest one and of the best search; shorter than that "
        "and than the best strict rule-based scheduler's in per cent. Daily: gain in EUR over the best rule-based "
        "scheduler and over the best strict one. The cooling tables are built to give the paper's PUE, so equal "
        "values are no confirmation.",
        (
            "scenario", "shortest rule, days", "best search", "shorter, %", "than best strict, %", "paper, %",
            "daily gain, EUR", "over strict", "paper", "PUE", "paper",
        ),
        tuple(_makespans_row(results, scenario) for scenario in SCENARIOS),
    )  # fmt: skip


def _makespans_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    paper = PAPER[scenario]
    ours, theirs, strictly = (results[scenario, solver] for solver in _best_of_each(results, scenario))
    shortest_s = min(results[scenario, rule].makespan_s for rule in RULES)
    daily = (f"{(ours.profit_then - other.profit_then) / DAYS:,.0f}" for other in (theirs, strictly))
    return (
        scenario,
        shortest_s / DAY_S,
        ours.makespan_s / DAY_S,
        -gain_pct(ours.makespan_s, shortest_s),
        -gain_pct(ours.makespan_s, strictly.makespan_s),
        paper.makespan_pct,
        *daily,
        f"{paper.daily:,.0f}",
        f"{ours.pue:.3f}",
        paper.pue,
    )


def solvers_table(results: Results) -> StudyTable:
    """Return a row for each solver and scenario."""
    return StudyTable(
        "solvers",
        "All solvers",
        "Profit until the last submission in thousand EUR and in per cent of a machine that is always full of the "
        "jobs with the lowest power, makespan in days, median of the days' gaps to their upper bounds in per cent, "
        "PUE, seconds for all plans, number of plans, and violations found by the verifier.",
        ("scenario", "solver", "profit", "of full", "makespan", "median gap", "PUE", "seconds", "plans", "violations"),
        tuple(_solver_row(results, *case) for case in results),
    )


def _solver_row(results: Results, scenario: str, solver: str) -> tuple[TableCell, ...]:
    result = results[scenario, solver]
    return (
        scenario,
        solver,
        result.profit_then / 1000,
        100 * result.profit_then / always_full(scenario),
        result.makespan_s / DAY_S,
        result.median_gap_pct,
        result.pue,
        result.seconds,
        str(result.plans),
        str(result.violations),
    )


IMPROVERS = SEARCHES[1:]


def searches_table(results: Results) -> StudyTable:
    """Return figures 5 to 8: gains over the default search."""
    return StudyTable(
        "searches",
        "Figures 5 to 8: gain of the searches over the default search",
        "Profit at the last submission in per cent above the default search's, and the days with a plan found by the "
        "search itself. On its other days the default search uses the heuristic in the order of release. The paper's "
        "default search is that of another solver.",
        ("scenario", *SEARCHES, "paper's best", "paper", "own: default", *IMPROVERS),
        tuple(_searches_row(results, scenario) for scenario in SCENARIOS),
    )


def _searches_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    paper, default = PAPER[scenario], results[scenario, "default"]
    gains = (gain_pct(results[scenario, search].profit_then, default.profit_then) for search in SEARCHES)
    own = (f"{result.own} of {result.plans}" for result in (default, *(results[scenario, name] for name in IMPROVERS)))
    return (scenario, *gains, paper.best_search, paper.over_default_pct, *own)


def efficiency_table(results: Results) -> StudyTable:
    """Return table 3: gains by second."""
    return StudyTable(
        "efficiency",
        "Table 3: gains by second, in per cent",
        "MultiSearch: its gain over the best rule-based scheduler per second of all its plans. The others: their "
        "gain over MultiSearch per second of their additional search; below 0 if the total is lower.",
        ("scenario", "multi", "paper", "relaxation", "paper", "delay", "paper", "neighbourhood"),
        tuple(_efficiency_row(results, scenario) for scenario in SCENARIOS),
    )


def _efficiency_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    paper, multi = PAPER[scenario], results[scenario, "multi"]
    rule = results[scenario, best(results, scenario, RULES)]
    cells: list[TableCell] = [f"{gain_pct(multi.profit_then, rule.profit_then) / multi.seconds:.4f}"]
    cells.append(f"{paper.multi_pct_per_s:.4f}")
    printed = {"relaxation": paper.relaxation_pct_per_s, "delay": paper.delay_pct_per_s}
    for name in IMPROVERS:
        search = results[scenario, name]
        gain = gain_pct(search.profit_then, multi.profit_then)
        cells.append(f"{gain / search.search_s:.7f}" if search.search_s else "")
        cells += [f"{printed[name]:.7f}"] if name in printed else []
    return (scenario, *cells)


GAPS_SCENARIO = "air summer"


def gaps_table(results: Results) -> StudyTable:
    """Return the share of the upper bound that each day's plan may have missed."""
    solvers = (*SEARCHES, "default")
    return StudyTable(
        "gaps",
        "Gaps of each day to its upper bound",
        f"The gap to the upper bound of the day, in per cent of it, in the scenario {GAPS_SCENARIO}. The table of all "
        "solvers has the medians of the other scenarios.",
        ("day", *solvers),
        tuple(
            (str(day), *(100 * gap for gap in gaps))
            for day, gaps in enumerate(zip(*(results[GAPS_SCENARIO, solver].gap for solver in solvers), strict=True), 1)
        ),
    )


TABLES = (gains_table, makespans_table, efficiency_table, searches_table, gaps_table, solvers_table)
COLOURS = {
    "best search": report.ORANGE,
    "default search": report.VIOLET,
    "best rule": report.BLUE,
    "best strict rule": report.LIGHT_GREEN,
}
SEARCH_COLOURS = {
    "multi": report.BLUE,
    "relaxation": report.LIGHT_GREEN,
    "delay": report.VIOLET,
    "neighbourhood": report.ORANGE,
}


def behind_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel for each scenario, a line for each solver, thousands of EUR over days."""
    solvers = dict(zip(COLOURS, (searches, ("default",), RULES, STRICT), strict=True))

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for scenario, axes in zip(SCENARIOS, panels, strict=True):
            chosen = {kind: best(results, scenario, names) for kind, names in solvers.items()}
            axes.set_title(f"{scenario}: {', '.join(chosen.values())}")
            for kind, solver in chosen.items():
                full, earned = always_full(scenario), accumulate(results[scenario, solver].profit)
                missed = [full / DAYS * day - profit for day, profit in enumerate(earned, start=1)]
                report.plot_line(axes, kind, COLOURS[kind], range(1, DAYS + 1), [eur / 1000 for eur in missed])
            axes.set_xlim(1, DAYS)
            axes.set_ylim(bottom=0.0)
        panels[-1].set_xlabel("day")
        report.add_legend(figure, panels[0], len(COLOURS), "Behind a machine that is always full, thousand EUR")

    return report.draw_figure(len(SCENARIOS), 1, height_in=1.0 + 1.8 * len(SCENARIOS), draw=draw)


def searches_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel for each scenario, a bar for each search, per cent of profit."""

    gains = {
        scenario: [
            gain_pct(results[scenario, search].profit_then, results[scenario, "default"].profit_then)
            for search in searches
        ]
        for scenario in SCENARIOS
    }
    low_pct = min(0.0, *(min(by_search) for by_search in gains.values()))
    high_pct = max(0.01, *(max(by_search) for by_search in gains.values()))

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for scenario, axes in zip(SCENARIOS, panels, strict=True):
            paper = PAPER[scenario]
            axes.set_title(f"{scenario} (paper: {paper.best_search} {percent_text(paper.over_default_pct, 1)})")
            report.label_rows(axes, searches)
            colours = [SEARCH_COLOURS[search] for search in searches]
            bars = axes.barh(range(len(searches)), gains[scenario], 0.7, color=colours)
            for search, bar in zip(searches, bars, strict=True):
                bar.set_gid(report.series_id(axes, search))
            axes.bar_label(bars, fmt="%.2f", padding=4)
            axes.set_xlim(1.08 * low_pct, 1.08 * high_pct)
        figure.suptitle("Profit above the default search's, per cent", x=0.01, ha="left", fontsize="medium")

    return report.draw_figure(len(SCENARIOS), 1, height_in=0.4 + 1.4 * len(SCENARIOS), draw=draw)


RUN = "offpeak_studies.profit_cooling.run"
TITLE = "Profit and cooling, planned a day ahead: compared with the paper's figures"
SEARCH_S = 5.0
"""Seconds per plan beyond the one that a search begins with; 4,000 in the paper."""
SOLVERS = (*RULE_BASED, "multi", "default", *IMPROVERS)


def profit_cooling(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    log = find_log(order.logs)
    jobs = curie_jobs(log)
    search_s = SEARCH_S if order.search_s is None else order.search_s
    planned = [
        CoolingExperiment(scenario, solver, search_s if solver in ("default", *IMPROVERS) else 0.0, order.seed)
        for solver in SOLVERS
        for scenario in SCENARIOS
    ]
    log_digest = hashlib.sha256(log.read_bytes()).hexdigest()
    keys = {experiment: result_key(RUN, experiment, log_digest) for experiment in planned}
    runner = Runner(partial(run, jobs=jobs, nodes=NODES, days=DAYS), TypeAdapter(CoolingResult))
    found = results_of(runner, keys, order, progress)
    results = {(experiment.scenario, experiment.solver): result for experiment, result in found.items()}
    figures = {"behind.svg": behind_svg(results, SEARCHES), "searches.svg": searches_svg(results, SEARCHES)}
    tables = tuple(table(results) for table in TABLES)
    return Report(TITLE, study_notes(len(jobs), results, search_s), tables, figures)


def study_notes(jobs: int, results: Results, search_s: float) -> tuple[str, ...]:
    """Return the assumptions of the study, and how many plans a search has not made itself, with the reasons."""
    plans, wrong = (
        sum(result.plans for result in results.values()),
        sum(result.violations for result in results.values()),
    )
    return (
        f"{jobs:,} jobs of 23 days of CEA Curie, none wider than {WIDEST:,} cores: these last about as long as the "
        "paper's 54 days; run times are known, as in the paper",
        "300 nodes of 32 cores and 128 GB; one unit for each 32 cores; 7.8 to 11.11 W per core, random; the log has "
        "no memory: lognormal around 1 GB per core",
        f"{REVENUE_PER_CORE_H:g} EUR per core-hour, by the paper's tables 1 and 2; {PRICE_PER_KWH:g} EUR/kWh is "
        "assumed; winter -1 to 5 C, summer 20 to 32 C",
        f"rule-based schedulers and multi run until they end, other searches {search_s:g} s longer per plan; after "
        "the last submission one plan covers all remaining days",
        f"{counted(plans, 'plan')} checked, {counted(wrong, 'violation')} found; each case runs once, --replays has "
        "no effect",
        *(
            f"{counted(count, 'plan')} that the search has not made itself but began with: {note}"
            for note, count in Counter(note for result in results.values() for note in result.notes).most_common()
        ),
    )
