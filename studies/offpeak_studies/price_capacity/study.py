"""The study as a whole: its experiments, its tables, its figure, and its report."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from offpeak.errors import BadPrices
from offpeak.files import read_bytes
from offpeak.model.constants import HOUR_S
from offpeak.report_tables import Range, Report, StudyTable, TableCell
from offpeak.sim_backend.sample import SAMPLE_PRICES
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from offpeak_studies.logs import find_logs
from offpeak_studies.price_capacity.run import (
    ALWAYS_ON,
    BLIND,
    FACTORS,
    FEW_SLAS,
    NODES,
    SLAS,
    START,
    TIMEOUT,
    CapacityExperiment,
    CapacityResult,
    CapacitySetup,
    aligned_on,
    price_notes,
    profile,
    run_at_prices,
)


def experiments(log: str, setup: CapacitySetup, replays: Replays) -> list[CapacityExperiment]:
    """Return the experiments of a setup, one for each replay."""
    return [CapacityExperiment(log, replays.seed, replay, setup) for replay in range(replays.count)]


def planned(logs: Sequence[str], replays: Replays) -> tuple[CapacityExperiment, ...]:
    """Return all experiments, those of a log next to each other."""
    setups = (START, *(factor.setup for factor in FACTORS))
    return tuple(experiment for log in logs for setup in setups for experiment in experiments(log, setup, replays))


@dataclass(frozen=True)
class CapacityResults:
    """All results of the study."""

    results: Mapping[CapacityExperiment, CapacityResult]
    replays: Replays

    def each(self, log: str, setup: CapacitySetup) -> Sequence[CapacityResult]:
        """Return the results of a setup's replays."""
        return [self.results[experiment] for experiment in experiments(log, setup, self.replays)]

    def of(self, log: str, setup: CapacitySetup, figure: Callable[[CapacityResult], float]) -> Range:
        """Return a figure over the replays."""
        return report.range_of([figure(result) for result in self.each(log, setup)])

    def saved_per_100_h(self, log: str, setup: CapacitySetup, policy: str) -> float | None:
        """Return what is saved of the machine's cost for 100 hours that jobs wait longer, all replays together.

        None where they do not wait longer.
        """
        results = self.each(log, setup)
        saved = sum(result.of(policy).baseline_cost - result.of(policy).cost for result in results)
        hours = sum(result.policies[0].jobs * result.longer_h(policy) for result in results)
        return 100 * saved / hours if hours > 0 else None


NAMES = {TIMEOUT: "time-out of 10 min", BLIND: "blind cap: half in the most expensive 6 h of a day"}
WAITS = ("mean wait [h]", "longer [h]", "longer [%]", "slowdown")
IN_BRACKETS = "In brackets the lowest and the highest of the replays: where they differ in sign it may be chance."


def policies_table(results: CapacityResults, logs: Sequence[str]) -> StudyTable:
    """Return a row for each log and policy at the starting point."""
    return StudyTable(
        "policies",
        "Savings of fewer nodes in expensive hours, and the longer waits",
        "Compared with nodes that are always on, in the same replays. Jobs: saved share of the cost of the jobs' "
        "energy, by moving jobs alone; machine: saved share of the total cost, sleeping nodes included. Longer: the "
        "increase of the mean wait. Per 100 h: saving of the machine's cost for 100 hours of longer waits, in the "
        "currency of the prices. " + IN_BRACKETS,
        ("log", "policy", "jobs [%]", "machine [%]", *WAITS, "per 100 h"),
        tuple(_policy_row(results, log, policy) for log in logs for policy in START.policies),
    )


def _policy_row(results: CapacityResults, log: str, policy: str) -> tuple[TableCell, ...]:
    figures: tuple[TableCell, ...] = (
        results.of(log, START, lambda result: result.of(policy).mean_wait_s / HOUR_S),
        results.of(log, START, lambda result: result.longer_h(policy)),
        results.of(log, START, lambda result: result.longer_pct(policy)),
        results.of(log, START, lambda result: result.of(policy).slowdown),
        results.saved_per_100_h(log, START, policy),
    )
    return (log, NAMES.get(policy, policy), *saved(results, log, START, policy), *figures)


def saved(results: CapacityResults, log: str, setup: CapacitySetup, policy: str) -> tuple[Range, Range]:
    """Return what a policy saves of the jobs' cost and of the machine's [%]."""
    of_jobs = results.of(log, setup, lambda result: result.job_saved_pct(policy))
    return of_jobs, results.of(log, setup, lambda result: result.saved_pct(policy))


def factors_table(results: CapacityResults, logs: Sequence[str]) -> StudyTable:
    """Return a row for each log and factor, for two SLAs."""
    headers = [f"{sla:g}: {cell}" for sla in FEW_SLAS for cell in ("jobs [%]", "machine [%]", "longer [h]")]
    rows = [(log, "starting point", "", START) for log in logs]
    rows += [(log, factor.name, factor.value, factor.setup) for log in logs for factor in FACTORS]
    return StudyTable(
        "factors",
        "Effect of load, price spread and length of jobs",
        "Everything else is as at the starting point. Saved share of the jobs' cost and of the "
        f"machine's cost, and increase of the wait in hours, for an SLA of {FEW_SLAS[0]:g} and one of "
        f"{FEW_SLAS[1]:g}; the time-out's saving of the machine's cost for comparison. " + IN_BRACKETS,
        ("log", "factor", "", "mean wait [h]", *headers, "time-out: machine [%]"),
        tuple(
            (log, name, value, *_factor_cells(results, log, setup))
            for log, name, value, setup in sorted(rows, key=lambda row: logs.index(row[0]))
        ),
    )


def _factor_cells(results: CapacityResults, log: str, setup: CapacitySetup) -> tuple[TableCell, ...]:
    cells: list[TableCell] = [results.of(log, setup, lambda result: result.of(ALWAYS_ON).mean_wait_s / HOUR_S)]
    for policy in map(profile, FEW_SLAS):
        cells += saved(results, log, setup, policy)
        cells.append(results.of(log, setup, lambda result, policy=policy: result.longer_h(policy)))  # type: ignore[misc]
    return (*cells, saved(results, log, setup, TIMEOUT)[1])


LEGEND = (
    f"marks on a line, from the left: profile with an SLA of {', '.join(f'{sla:g}' for sla in SLAS)}\n"
    "ring: blind cap · square: time-out · upright lines: from the lowest to the highest replay"
)
Saving = Callable[[CapacityResult, str], float]


def trade_svg(results: CapacityResults, logs: Sequence[str]) -> str:
    """Return the figure: the saved cost of the jobs and of the machine against the longer waits."""
    measures: tuple[tuple[str, Saving], ...] = (
        ("saved of the cost of the jobs' energy [%]", CapacityResult.job_saved_pct),
        ("saved of the machine's cost, sleeping nodes included [%]", CapacityResult.saved_pct),
    )

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for (name, saving), axes in zip(measures, panels, strict=True):
            axes.set_title(name)
            axes.set_xlabel("mean wait longer by [h]")
            for at, log in enumerate(logs):
                _plot_log(results, log, saving, report.LOG_COLOURS[at % len(report.LOG_COLOURS)], axes)
            axes.set_xlim(min(axes.get_xlim()[0], 0.0), max(axes.get_xlim()[1], 0.0))
            axes.set_ylim(min(axes.get_ylim()[0], 0.0), max(axes.get_ylim()[1], 0.0))
        report.add_legend(figure, panels[0], 3, LEGEND)

    return report.draw_figure(len(measures), 1, height_in=8.0, draw=draw)


def _plot_log(results: CapacityResults, log: str, saving: Saving, colour: str, axes: report.Axes) -> None:
    """Plot a log's policies: a line through those with an SLA, and marks beside it."""
    policies = (*map(profile, SLAS), BLIND, TIMEOUT)
    hours = [
        results.of(log, START, lambda result, policy=policy: result.longer_h(policy)).mean  # type: ignore[misc]
        for policy in policies
    ]
    saved = [
        results.of(log, START, lambda result, policy=policy: saving(result, policy))  # type: ignore[misc]
        for policy in policies
    ]
    axes.vlines(hours, [saving.low for saving in saved], [saving.high for saving in saved], colors=colour, alpha=0.5)
    means = [saving.mean for saving in saved]
    report.plot_line(axes, log, colour, hours[:-2], means[:-2], "o")
    axes.plot(
        hours[-2:-1],
        means[-2:-1],
        "o",
        color=colour,
        markerfacecolor="white",
        gid=report.series_id(axes, f"{log} ring"),
    )
    axes.plot(hours[-1:], means[-1:], "s", color=colour, markersize=7, gid=report.series_id(axes, f"{log} square"))


RUN = "offpeak_studies.price_capacity.run"


def digest_of(prices: Path) -> str:
    """Return a digest of a price file, compressed or not. Raises BadPrices if it cannot be read."""
    return hashlib.sha256(read_bytes(prices, BadPrices)).hexdigest()[:16]


TITLE = "Fewer nodes in expensive hours: does it pay?"
START_NOTE = (
    "starting point: EASY with users' estimates, 30 days of the log at a load of 70 %, one node per unit of the log, "
    "class `server` (200 W idle, 480 to 700 W in use, 15 W off, 60 s down, 300 s up), prices known 24 h ahead; "
    "profile:1h:S plans the nodes on offer every hour and keeps the mean slowdown of the known jobs, by estimates, at "
    "S or below"
)


def price_capacity(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    logs, left_out = find_logs(order.logs)
    prices, replays = order.prices or SAMPLE_PRICES, Replays(order.replays, order.seed)
    price_lines = dict.fromkeys(note for log in logs for note in price_notes(log, prices))
    digests, prices_digest = {log.source.name: log.digest for log in logs}, digest_of(prices)
    names = list(digests)
    keys = {
        experiment: result_key(RUN, experiment, digests[experiment.log], prices_digest, NODES)
        for experiment in planned(names, replays)
    }
    aligned = {log.source.name: aligned_on(log, prices) for log in logs}
    runner = Runner(RunOnLog.of(partial(run_at_prices, prices=aligned), logs), TypeAdapter(CapacityResult))
    results = CapacityResults(results_of(runner, keys, order, progress), replays)
    notes = (START_NOTE, *price_lines, _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(results, names), factors_table(results, names))
    return Report(TITLE, notes, tables, {"trade.svg": trade_svg(results, names)})


def _replays_note(replays: Replays, experiments: int) -> str:
    return (
        f"{replays.describe()}, replay number i of the i-th 30 days of the log (of 120 days where jobs are a quarter "
        "as long, and so on) at the prices of its i-th 30 days, with submit times 0 to 60 s later and draws of jobs "
        f"by chance: seeds ({replays.seed}, 0) and up; {counted(experiments, 'experiment')}"
    )
