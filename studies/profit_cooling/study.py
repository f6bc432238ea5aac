"""The study as a whole: every solver in every scenario on the paper's days, and the report."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.model.constants import HOUR_S
from offpeak.text import counted
from plugin.planner.cp_solver import require_or_tools
from plugin.planner.solvers import RULE_BASED
from studies.profit_cooling.experiment import (
    PRICE_PER_KWH,
    REVENUE_PER_CORE_H,
    SCENARIOS,
    WIDEST,
    CoolingExperiment,
    CoolingResult,
    curie_jobs,
    find_log,
    parse_result,
)
from studies.profit_cooling.report import (
    SEARCHES,
    behind_svg,
    by_case,
    efficiency_table,
    gains_table,
    gaps_table,
    searches_svg,
    searches_table,
    solvers_table,
)
from studies.profit_cooling.run import run, run_on_log
from studies.report import Report
from studies.resumable import Progress, Runner, StudyOrder, results_of

TITLE = "Profit and cooling, planned a day ahead: beside the paper's figures"
SEARCH_S = 5.0
SOLVERS = {**dict.fromkeys((*RULE_BASED, "multi"), 0.0), **dict.fromkeys(("default", *SEARCHES[1:]), SEARCH_S)}
"""Seconds a plan beyond the one that a search begins with."""


def profit_cooling(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    require_or_tools()
    log = find_log(order.logs)
    jobs = curie_jobs(log)
    planned = [CoolingExperiment(scenario, *solver, order.seed) for solver in SOLVERS.items() for scenario in SCENARIOS]
    keys = {each: _key(each, hashlib.sha256(log.read_bytes()).hexdigest()) for each in planned}
    answer = _Answer(log)
    few = jobs.take(jobs.submit_s < HOUR_S)
    runner = Runner(
        answer, parse_result, lambda: run(CoolingExperiment("air winter", "multi", 0.0, 1), few, nodes=64, days=1)
    )
    results = by_case(results_of(runner, keys, order, progress))
    tables = tuple(
        table(results) for table in (gains_table, efficiency_table, searches_table, gaps_table, solvers_table)
    )
    figures = {"behind.svg": behind_svg(results, SEARCHES), "searches.svg": searches_svg(results, SEARCHES)}
    return Report(TITLE, study_notes(len(jobs), results), tables, figures)


@dataclass(frozen=True)
class _Answer:
    """Runs an experiment on the log, in any process."""

    log: Path

    def __call__(self, experiment: CoolingExperiment) -> CoolingResult:
        return run_on_log(experiment, self.log)


def _key(experiment: CoolingExperiment, log_digest: str) -> str:
    told = json.dumps([asdict(experiment), log_digest, _code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for source in sources_of(Path(__file__).with_name("run.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def study_notes(jobs: int, results: Mapping[tuple[str, str], CoolingResult]) -> tuple[str, ...]:
    """Return what a reader has to know of the study, and how many plans are not their search's own, and why."""
    plans, wrong = sum(each.plans for each in results.values()), sum(each.violations for each in results.values())
    return (
        f"{jobs:,} jobs of 23 days of CEA Curie, none wider than {WIDEST:,} cores: with those the work lasts about as "
        "long as the paper's 54 days; run times are known, as in the paper",
        "300 nodes of 32 cores and 128 GB; a unit for each 32 cores; 7.8 to 11.11 W a core, drawn; the log has no "
        "memory: lognormal around 1 GB a core, drawn",
        f"{REVENUE_PER_CORE_H:g} EUR a core-hour, by the paper's tables 1 and 2; {PRICE_PER_KWH:g} EUR/kWh is assumed; "
        "winter -1 to 5 C, summer 20 to 32 C",
        f"rule-based schedulers and multi take what they need, other searches {SEARCH_S:g} s a plan more; behind the "
        "last submission as many days as the rest needs are planned at once",
        f"{counted(plans, 'plan')} checked, {counted(wrong, 'violation')} found; each case is run once, whatever "
        "--replays says",
        *(
            f"{counted(count, 'plan')} that the search has not made itself but began with: {note}"
            for note, count in Counter(note for each in results.values() for note in each.notes).most_common()
        ),
    )
