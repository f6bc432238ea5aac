"""Tables and figures of the study beside the paper's: tables 1 to 3, figures 1 to 4 (profit) and 5 to 8 (searches)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from offpeak.model.constants import DAY_S
from plugin.planner.solvers import RULE_BASED
from studies.profit_cooling.experiment import (
    DAYS,
    LEAST_W,
    NODE_CORES,
    NODES,
    PRICE_PER_KWH,
    REVENUE_PER_CORE_H,
    SCENARIOS,
    CoolingExperiment,
    CoolingResult,
    least_pue,
)
from studies.report import StudyTable, TableCell
from studies.svg import WIDTH, legend_at, svg, text


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
    "air winter": PublishedGains(
        profit_pct=7.71,
        makespan_pct=1.85,
        pue=1.11,
        daily=20144.28,
        multi_pct_per_s=0.0030658,
        delay_pct_per_s=1e-7,
        relaxation_pct_per_s=3e-7,
        best_search="delay",
        over_default_pct=10.451758,
    ),
    "air summer": PublishedGains(
        profit_pct=7.66,
        makespan_pct=1.85,
        pue=1.43,
        daily=20222.91,
        multi_pct_per_s=0.0031243,
        delay_pct_per_s=5e-7,
        relaxation_pct_per_s=-3e-7,
        best_search="delay",
        over_default_pct=10.51854,
    ),
    "hybrid winter": PublishedGains(
        profit_pct=7.86,
        makespan_pct=1.85,
        pue=1.00,
        daily=20227.90,
        multi_pct_per_s=0.0031372,
        delay_pct_per_s=1e-7,
        relaxation_pct_per_s=-1e-7,
        best_search="delay",
        over_default_pct=10.753464,
    ),
    "hybrid summer": PublishedGains(
        profit_pct=7.95,
        makespan_pct=1.85,
        pue=1.09,
        daily=20249.67,
        multi_pct_per_s=0.0031320,
        delay_pct_per_s=-9e-7,
        relaxation_pct_per_s=2e-7,
        best_search="relaxation",
        over_default_pct=10.36506,
    ),
}

Results = Mapping[tuple[str, str], CoolingResult]
"""By scenario and solver."""

SEARCHES = ("multi", "relaxation", "delay", "neighbourhood")


def by_case(results: Mapping[CoolingExperiment, CoolingResult]) -> Results:
    """Return the results by scenario and solver."""
    return {(each.scenario, each.solver): result for each, result in results.items()}


def gain_pct(value: float, base: float) -> float:
    """Return by how many per cent it is above the base."""
    return 100 * (value / base - 1)


def best(results: Results, scenario: str, solvers: tuple[str, ...]) -> str:
    """Return the solver of the largest profit at the last submission."""
    return max(solvers, key=lambda solver: results[scenario, solver].profit_then)


def always_full(scenario: str) -> float:
    """Return the profit of a machine that is full at all times of all days with the most frugal jobs."""
    per_core_h = REVENUE_PER_CORE_H - LEAST_W / 1000 * least_pue(SCENARIOS[scenario]) * PRICE_PER_KWH
    return NODES * NODE_CORES * 24 * DAYS * per_core_h


RULES = tuple(RULE_BASED)
STRICT = tuple(solver for solver in RULE_BASED if solver.startswith("strict"))


def gains_table(results: Results) -> StudyTable:
    """Return tables 1 and 2: gains over the best rule-based scheduler."""
    return StudyTable(
        "gains",
        "Tables 1 and 2: our best search against rule-based schedulers",
        "Profit at the last submission and makespan, in per cent better than the best rule-based scheduler, strict or "
        "not, and than the best strict one. No plan: what a machine that is always full of the most frugal jobs would "
        "gain, more than which is impossible. Daily: gain over the best in EUR a day. The cooling tables were made to "
        "give the paper's PUE, so that both are equal confirms nothing.",
        (
            "scenario", "best search", "best rule", "profit", "no plan", "best strict", "profit", "no plan", "paper",
            "makespan", "over strict", "paper", "daily", "paper", "PUE", "paper",
        ),
        tuple(_gains_row(results, scenario) for scenario in SCENARIOS),
    )  # fmt: skip


def _gains_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    paper, search = PAPER[scenario], best(results, scenario, SEARCHES)
    rule, strict = best(results, scenario, RULES), best(results, scenario, STRICT)
    ours, theirs, strictly = (results[scenario, each] for each in (search, rule, strict))
    full = always_full(scenario)
    shortest = min(results[scenario, each].makespan_s for each in RULE_BASED)
    return (
        scenario,
        search,
        rule,
        gain_pct(ours.profit_then, theirs.profit_then),
        gain_pct(full, theirs.profit_then),
        strict,
        gain_pct(ours.profit_then, strictly.profit_then),
        gain_pct(full, strictly.profit_then),
        paper.profit_pct,
        -gain_pct(ours.makespan_s, shortest),
        -gain_pct(ours.makespan_s, strictly.makespan_s),
        paper.makespan_pct,
        (ours.profit_then - theirs.profit_then) / DAYS,
        paper.daily,
        ours.pue,
        paper.pue,
    )


def solvers_table(results: Results) -> StudyTable:
    """Return a row a solver and scenario."""
    return StudyTable(
        "solvers",
        "All solvers",
        "Profit until the last submission in thousand EUR and in per cent of a machine that is always full of the most "
        "frugal jobs, makespan in days, median of the days' gaps to their upper bounds in per cent, PUE, seconds that "
        "all plans took, plans, and what the verifier found wrong with them.",
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
        "Figures 5 to 8: what the searches gain over the default search",
        "Profit at the last submission in per cent above the default search's, and the days that had a plan of the "
        "search's own: of the default search the others are the heuristic's in the order of release. The paper's "
        "default search is another solver's.",
        ("scenario", *SEARCHES, "paper's best", "paper", "own: default", *IMPROVERS),
        tuple(_searches_row(results, scenario) for scenario in SCENARIOS),
    )


def _searches_row(results: Results, scenario: str) -> tuple[TableCell, ...]:
    paper, default = PAPER[scenario], results[scenario, "default"]
    gains = (gain_pct(results[scenario, search].profit_then, default.profit_then) for search in SEARCHES)
    own = (f"{each.own} of {each.plans}" for each in (default, *(results[scenario, name] for name in IMPROVERS)))
    return (scenario, *gains, paper.best_search, paper.over_default_pct, *own)


def efficiency_table(results: Results) -> StudyTable:
    """Return table 3: gains by second."""
    return StudyTable(
        "efficiency",
        "Table 3: gains by second, in per cent",
        "MultiSearch: its gain over the best rule-based scheduler by second of all its plans. The others: their gain "
        "over MultiSearch by second of what they searched beyond it; below 0 where the whole came to less.",
        ("scenario", "multi", "paper", *(cell for name in IMPROVERS for cell in _paired(name))),
        tuple(_efficiency_row(results, scenario) for scenario in SCENARIOS),
    )


def _paired(name: str) -> tuple[str, ...]:
    return (name,) if name == "neighbourhood" else (name, "paper")


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


def gaps_table(results: Results) -> StudyTable:
    """Return how much of its upper bound each day's plan of the best search may have missed."""
    names = {scenario: best(results, scenario, SEARCHES) for scenario in SCENARIOS}
    return StudyTable(
        "gaps",
        "What each day may have missed",
        "The gap to the upper bound, in per cent of it, of each day's plan of the best search, "
        + ", ".join(f"{name} in {scenario}" for scenario, name in names.items()),
        ("day", *SCENARIOS),
        tuple(
            (str(day + 1), *(100 * results[scenario, name].gap[day] for scenario, name in names.items()))
            for day in range(DAYS)
        ),
    )


LEFT, RIGHT, HEAD, PANEL, GAP, FOOT = 90, 20, 40, 130, 44, 10
COLOURS = {
    "best search": "#c4570b",
    "default search": "#8e44ad",
    "best rule": "#1f62a8",
    "best strict rule": "#6aa84f",
}


def behind_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel a scenario, a line a solver, thousands of EUR over days."""
    panels = [
        f'<g transform="translate(0 {HEAD + (PANEL + GAP) * at})">{_panel(results, scenario, searches)}</g>'
        for at, scenario in enumerate(SCENARIOS)
    ]
    height = HEAD + (PANEL + GAP) * len(SCENARIOS) + FOOT
    return svg(
        height,
        [text("Behind a machine that is always full, thousand EUR", 10, 22), legend_at(COLOURS, 330, 22), *panels],
    )


def _panel(results: Results, scenario: str, searches: tuple[str, ...]) -> str:
    solvers = (searches, ("default",), RULES, STRICT)
    chosen = [best(results, scenario, each) for each in solvers]
    lines = [_behind(results[scenario, solver].profit, always_full(scenario)) for solver in chosen]
    most = max(max(line) for line in lines)
    marks = "".join(_line(line, most, colour) for line, colour in zip(lines, COLOURS.values(), strict=True))
    names = f"{scenario}: {', '.join(chosen)}"
    return text(names, LEFT, 14) + _frame(most) + marks


def _behind(profit: Sequence[float], full: float) -> list[float]:
    """Return by how much the summed profit is behind at each day's end."""
    return [full / DAYS * (day + 1) - earned for day, earned in enumerate(accumulate(profit))]


def _frame(most: float) -> str:
    bottom = PANEL + 4
    lines = "".join(_level(value, _y(value, most)) for value in (0.0, most / 2, most))
    days = "".join(text(str(day), _x(day), bottom + 18, anchor="middle") for day in (1, 5, 10, 15, 20, DAYS))
    return lines + days + text("day", LEFT - 8, bottom + 18, anchor="end")


def _level(value: float, y: float) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
    return line + text(f"{value / 1000:,.0f}", LEFT - 8, y + 4, anchor="end")


def _line(values: list[float], most: float, colour: str) -> str:
    points = " ".join(f"{_x(day)},{_y(value, most)}" for day, value in enumerate(values, 1))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _x(day: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (day - 1) / (DAYS - 1), 1)


def _y(value: float, most: float) -> float:
    return round(24 + (PANEL - 24) * (1 - value / most), 1)


SEARCH_COLOURS = {"multi": "#1f62a8", "relaxation": "#6aa84f", "delay": "#8e44ad", "neighbourhood": "#c4570b"}
SEARCH_LEFT, SEARCH_HEAD, SEARCH_PANEL, BAR, ROW = 150, 44, 30, 16, 22


def searches_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel a scenario, a bar a search, per cent of profit; the paper's figure is in words."""
    gains = {scenario: _gains(results, scenario, searches) for scenario in SCENARIOS}
    most = max(abs(gain) for each in gains.values() for gain in each.values()) or 1.0
    height, parts = SEARCH_HEAD, [text("Profit above the default search's, per cent", 10, 22)]
    for scenario, each in gains.items():
        paper = PAPER[scenario]
        said = f"{scenario} (paper: {paper.best_search} {paper.over_default_pct:.1f} %)"
        parts.append(text(said, 10, height + 18))
        for row, (search, gain) in enumerate(each.items()):
            parts.append(_bar(search, gain, most, height + SEARCH_PANEL + ROW * row))
        height += SEARCH_PANEL + ROW * len(each) + 12
    return svg(height, parts)


def _gains(results: Results, scenario: str, searches: tuple[str, ...]) -> dict[str, float]:
    default = results[scenario, "default"].profit_then
    return {search: gain_pct(results[scenario, search].profit_then, default) for search in searches}


def _bar(search: str, gain: float, most: float, y: float) -> str:
    width = round((WIDTH - SEARCH_LEFT - 90) * abs(gain) / most, 1)
    bar = f'<rect x="{SEARCH_LEFT}" y="{y}" width="{width}" height="{BAR}" fill="{SEARCH_COLOURS[search]}"/>'
    return (
        bar + text(search, SEARCH_LEFT - 8, y + 13, anchor="end") + text(f"{gain:.2f}", SEARCH_LEFT + width + 6, y + 13)
    )
