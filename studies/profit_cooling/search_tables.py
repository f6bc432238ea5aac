"""The study's tables of searches: gains over the default search and by second, and every day's gap."""

from studies.profit_cooling.jobs import DAYS
from studies.profit_cooling.paper import PAPER
from studies.profit_cooling.scenario import SCENARIOS
from studies.profit_cooling.tables import RULES, SEARCHES, Results, best, gain_pct
from studies.report import Cell, Table

IMPROVERS = SEARCHES[1:]


def searches_table(results: Results) -> Table:
    """Return figures 5 to 8: gains over the default search."""
    return Table(
        "searches",
        "Figures 5 to 8: what the searches gain over the default search",
        "Profit at the last submission in per cent above the default search's, and the days that had a plan of the "
        "search's own: of the default search the others are the heuristic's in the order of release. The paper's "
        "default search is another solver's.",
        ("scenario", *SEARCHES, "paper's best", "paper", "own: default", *IMPROVERS),
        tuple(_searches_row(results, scenario) for scenario in SCENARIOS),
    )


def _searches_row(results: Results, scenario: str) -> tuple[Cell, ...]:
    paper, default = PAPER[scenario], results[scenario, "default"]
    gains = (gain_pct(results[scenario, search].profit_then, default.profit_then) for search in SEARCHES)
    own = (f"{each.own} of {each.plans}" for each in (default, *(results[scenario, name] for name in IMPROVERS)))
    return (scenario, *gains, paper.best_search, paper.over_default_pct, *own)


def efficiency_table(results: Results) -> Table:
    """Return table 3: gains by second."""
    return Table(
        "efficiency",
        "Table 3: gains by second, in per cent",
        "MultiSearch: its gain over the best rule-based scheduler by second of all its plans. The others: their gain "
        "over MultiSearch by second of what they searched beyond it; below 0 where the whole came to less.",
        ("scenario", "multi", "paper", *(cell for name in IMPROVERS for cell in _paired(name))),
        tuple(_efficiency_row(results, scenario) for scenario in SCENARIOS),
    )


def _paired(name: str) -> tuple[str, ...]:
    return (name,) if name == "neighbourhood" else (name, "paper")


def _efficiency_row(results: Results, scenario: str) -> tuple[Cell, ...]:
    paper, multi = PAPER[scenario], results[scenario, "multi"]
    rule = results[scenario, best(results, scenario, RULES)]
    cells: list[Cell] = [f"{gain_pct(multi.profit_then, rule.profit_then) / multi.seconds:.4f}"]
    cells.append(f"{paper.multi_pct_per_s:.4f}")
    printed = {"relaxation": paper.relaxation_pct_per_s, "delay": paper.delay_pct_per_s}
    for name in IMPROVERS:
        search = results[scenario, name]
        gain = gain_pct(search.profit_then, multi.profit_then)
        cells.append(f"{gain / search.search_s:.7f}" if search.search_s else "")
        cells += [f"{printed[name]:.7f}"] if name in printed else []
    return (scenario, *cells)


def gaps_table(results: Results) -> Table:
    """Return how much of its upper bound each day's plan of the best search may have missed."""
    names = {scenario: best(results, scenario, SEARCHES) for scenario in SCENARIOS}
    return Table(
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
