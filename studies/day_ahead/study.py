"""The part XSEDE as a whole: forecasts the prices, runs the missing experiments and builds the report.

A key names a result by everything that it depends on: the experiment, the prices, and the sources of `run`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadInput
from offpeak.text import counted
from plugin.federation.flow import need_or_tools
from studies.day_ahead.experiment import DayAheadExperiment, DayAheadReplays, DayAheadResult, parse_result
from studies.day_ahead.figures import hours_svg, trade_svg
from studies.day_ahead.plan import FEW, START, planned
from studies.day_ahead.prices import DAYS, SITES, make_forecasts, places, site_rows
from studies.day_ahead.run import run
from studies.day_ahead.tables import (
    DayAheadResults,
    cycles_table,
    data_table,
    errors_table,
    estimates_table,
    most_table,
    powers_table,
    shares_table,
    sites_table,
    sizes_table,
    strategies_table,
    weights_table,
)
from studies.report import Report, StudyTable, folder_for
from studies.resumable import Progress, Runner, StudyOrder, results_of

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: DayAheadExperiment, prices_digest: str) -> str:
    """Return the key of an experiment with prices and sites of that digest, under the present code."""
    told = json.dumps([asdict(experiment), prices_digest, code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def digest_of(folder: Path, prices: Iterable[Path]) -> str:
    """Return a digest of the sites' table and the price files."""
    digest = hashlib.sha256((folder / SITES).read_bytes())
    for file in prices:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def code_digest() -> str:
    """Return a digest of the sources of `run` and of what it imports of ours, kernels too."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


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
    """Run what `order.out` does not have yet, and return the report. BadInput without the folder of prices."""
    need_or_tools()
    if order.logs is not None:
        raise BadInput("day-ahead replays no logs: its jobs are drawn", hint="leave --logs out")
    sites = tuple(row.name for row in site_rows(order.prices))
    folder, out = Path(order.prices or ""), folder_for(order.out)
    forecast_note = make_forecasts(places(folder, out), DAYS, order.processes)
    replays = DayAheadReplays(order.replays, order.seed)
    digest = digest_of(folder, [place.prices for place in places(folder, out).values()])
    keys = {experiment: key_of(experiment, digest) for experiment in planned(replays)}
    runner: Runner[DayAheadExperiment, DayAheadResult] = Runner(
        partial(run, folder=folder, out=out), parse_result, partial(_warm_up, folder, out)
    )
    answers = DayAheadResults(results_of(runner, keys, order, progress), replays, sites)
    notes = (LOG_NOTE, WAIT_NOTE, POWER_NOTE, forecast_note, _replays_note(replays, len(keys)))
    figures = {"trade.svg": trade_svg(answers), "hours.svg": hours_svg(answers)}
    return Report(TITLE, notes, tuple(table(answers) for table in TABLES), figures)


def _warm_up(folder: Path, out: Path) -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    run(DayAheadExperiment(START, 0, 0, jobs=100, history=4_000), folder, out)


def _replays_note(replays: DayAheadReplays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of what Table 4 and the claims rest on: seeds ({replays.seed}, 0) to "
        f"({replays.seed}, {replays.count - 1}); of all else at most {FEW}; {counted(count, 'experiment')}"
    )
