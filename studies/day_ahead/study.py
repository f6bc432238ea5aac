"""The study as a whole: forecasts the prices, runs the experiments that are missing, and tells what they come to."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.text import counted
from plugin.federation.flow import need_or_tools
from studies.day_ahead.answers import Answers
from studies.day_ahead.class_tables import estimates_table, powers_table, sites_table, sizes_table
from studies.day_ahead.experiment import Experiment, Replays
from studies.day_ahead.figures import hours_svg, trade_svg
from studies.day_ahead.folder import site_rows
from studies.day_ahead.forecasts import DAYS, make_forecasts, places
from studies.day_ahead.keys import digest_of, key_of
from studies.day_ahead.plan import FEW, START, planned
from studies.day_ahead.result import Result, parse_result
from studies.day_ahead.run import run
from studies.day_ahead.tables import (
    cycles_table,
    data_table,
    errors_table,
    most_table,
    shares_table,
    strategies_table,
    weights_table,
)
from studies.order import Order, Progress
from studies.report import Report, Table
from studies.resumable import Runner, results_of
from studies.write import folder_for

TITLE = "Metascheduling in day-ahead markets: Murali and Vadhiyar, re-run"
LOG_NOTE = (
    "jobs: drawn for each of the eight systems after Lublin, Feitelson and Tsafrir; shares, mean sizes and loads are "
    "those of the 4,100 jobs that the authors published; 4,000 jobs at home come before the 10,000 that count"
)
WAIT_NOTE = (
    f"waits: the published predictor, learning at each system; a cycle every {START.period_s // 60} minutes, MaxQ = 2"
)
POWER_NOTE = "power: Linpack's per core at the system where a job runs; energy of idle cores is not counted"

TABLES: tuple[Callable[[Answers], Table], ...] = (
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


def day_ahead(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput without the folder of prices."""
    need_or_tools()
    if order.logs is not None:
        raise BadInput("day-ahead replays no logs: its jobs are drawn", hint="leave --logs out")
    sites = tuple(row.name for row in site_rows(order.prices))
    folder, out = Path(order.prices or ""), folder_for(order.out)
    forecast_note = make_forecasts(places(folder, out), DAYS, order.processes)
    replays = Replays(order.replays, order.seed)
    digest = digest_of(folder, [place.prices for place in places(folder, out).values()])
    keys = {experiment: key_of(experiment, digest) for experiment in planned(replays)}
    runner: Runner[Experiment, Result] = Runner(
        partial(run, folder=folder, out=out), parse_result, partial(_warm_up, folder, out)
    )
    answers = Answers(results_of(runner, keys, order, progress), replays, sites)
    notes = (LOG_NOTE, WAIT_NOTE, POWER_NOTE, forecast_note, _replays_note(replays, len(keys)))
    figures = {"trade.svg": trade_svg(answers), "hours.svg": hours_svg(answers)}
    return Report(TITLE, notes, tuple(table(answers) for table in TABLES), figures)


def _warm_up(folder: Path, out: Path) -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    run(Experiment(START, 0, 0, jobs=100, history=4_000), folder, out)


def _replays_note(replays: Replays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of what Table 4 and the claims rest on: seeds ({replays.seed}, 0) to "
        f"({replays.seed}, {replays.count - 1}); of all else at most {FEW}; {counted(count, 'experiment')}"
    )
