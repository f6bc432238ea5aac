"""The study as a whole: plans the experiments, runs those without a result, and builds the report and its figures."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import TypeAdapter

from offpeak.report_tables import Range, Report, StudyTable
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from offpeak_studies.logs import find_logs, generated_note
from offpeak_studies.online_simulation.plan import PERIODS, OnlineSubject, planned, policies_of, subjects_of
from offpeak_studies.online_simulation.run import ByWeek, OnlineResult, node_class_of, run
from offpeak_studies.online_simulation.tables import (
    Measure,
    OnlineResults,
    claims_table,
    inactive_pct,
    knowledge_table,
    logs_table,
    periods_table,
    policies_table,
    readings_table,
    servers_table,
    slowdown,
    utilization_pct,
)

RUN = "offpeak_studies.online_simulation.run"
TITLE = "Nodes that sleep by online simulation: Lawson and Smirni, ICS 2005, re-run"
SETUP_NOTE = (
    "setup as in the paper: EASY backfilling, exact run times known, S = 200, OLS decided weekly from the first "
    "submission on, transitions take no time, processors sleep individually; slowdown is 1 + wait / max(10 s, run)"
)
SLEEP_NOTE = "nodes: 200 W idle, 15 W off; `server` takes 60 s down and 300 s up"


def online_simulation(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    logs, left_out = find_logs(order.logs)
    subjects = subjects_of(logs)
    replays = Replays(order.replays, order.seed)
    digests = {log.source.name: log.digest for log in logs}
    keys = {
        experiment: result_key(RUN, experiment, digests[experiment.log], node_class_of(experiment.setup.nodes))
        for experiment in planned(subjects, replays)
    }
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(OnlineResult))
    results = OnlineResults(results_of(runner, keys, order, progress), replays)
    notes = (SETUP_NOTE, SLEEP_NOTE, _replays_note(replays, len(keys)), *_log_notes(subjects), *left_out)
    return Report(TITLE, notes, _tables(results, subjects), figures(results, subjects))


def _replays_note(replays: Replays, experiments: int) -> str:
    return (
        f"{replays.describe()}, with submit times 0 to 60 s later: {replays.describe_seeds()}; a quarter as many of "
        "hourly OLS, of the changes with daily OLS, and of each later begin of the weeks; "
        f"{counted(experiments, 'experiment')}"
    )


def _log_notes(subjects: Sequence[OnlineSubject]) -> tuple[str, ...]:
    sizes = (
        f"{subject.name} runs on the paper's {subject.size:,} processors; its header has {subject.log.size:,}"
        for subject in subjects
        if subject.size != subject.log.size
    )
    return (*generated_note([subject.log for subject in subjects]), *sizes)


def _tables(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> tuple[StudyTable, ...]:
    return (
        logs_table(subjects),
        claims_table(results, subjects),
        policies_table(results, subjects),
        periods_table(results, subjects),
        knowledge_table(results, subjects),
        readings_table(results, subjects),
        servers_table(results, subjects),
    )


FIGURE_MEASURES = {"slowdown": slowdown, "utilization [%]": utilization_pct, "inactive [%]": inactive_pct}
POLICY_COLOURS = {"all processors": report.GREY, "two-level": report.BLUE, "OLS": report.ORANGE}


def figures(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> Mapping[str, str]:
    """Return all figures by file name, in the order of the paper's: 2, 3 with 5, 4, 6, 7 and 8."""
    return {
        "policies.svg": _policies(results, subjects),
        "slowdown.svg": _weekly(results, subjects, lambda result: result.weekly.slowdown, is_log=True),
        "utilization.svg": _weekly(results, subjects, lambda result: result.weekly.utilization),
        "active.svg": _active(results, subjects),
        "violations.svg": _weekly(results, subjects, lambda result: result.weekly.violations),
        "periods.svg": _periods(results, subjects),
    }


def _policies(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    def values(policy: str, measure: Measure) -> list[Range]:
        return [results.of(subject, policies_of(subject)[policy], measure) for subject in subjects]

    return ranges_svg([subject.name for subject in subjects], POLICY_COLOURS, values)


def _periods(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    by_name = {subject.name: subject for subject in subjects}
    colours = {name: report.LOG_COLOURS[at % len(report.LOG_COLOURS)] for at, name in enumerate(by_name)}

    def values(log: str, measure: Measure) -> list[Range]:
        return [results.of(by_name[log], by_name[log].setup(f"ols:{period}"), measure) for period in PERIODS]

    return ranges_svg(PERIODS, colours, values)


def ranges_svg(
    rows: Sequence[str], colours: Mapping[str, str], values: Callable[[str, Measure], Sequence[Range]]
) -> str:
    """Return a figure with a panel for each measure; `values` gives the ranges of a series by row."""

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        report.label_rows(panels[0], rows)
        for (name, measure), axes in zip(FIGURE_MEASURES.items(), panels, strict=True):
            axes.set_title(name)
            axes.grid(visible=False, axis="y")
            for at, (series, colour) in enumerate(colours.items()):
                report.plot_ranges(
                    axes, series, colour, report.dodge(len(rows), at, len(colours)), values(series, measure)
                )
            axes.set_xlim(left=0.0)
        report.add_legend(figure, panels[0], len(colours))

    height_in = 0.8 + len(rows) * (0.2 + 0.16 * len(colours))
    return report.draw_figure(1, len(FIGURE_MEASURES), height_in=height_in, draw=draw, sharey=True)


def _weekly(
    results: OnlineResults,
    subjects: Sequence[OnlineSubject],
    by_week: Callable[[OnlineResult], ByWeek],
    *,
    is_log: bool = False,
) -> str:
    return weeks_svg(
        {
            subject.name: {
                name: results.weekly(subject, setup, by_week) for name, setup in policies_of(subject).items()
            }
            for subject in subjects
        },
        is_log=is_log,
    )


def _active(results: OnlineResults, subjects: Sequence[OnlineSubject]) -> str:
    """Return the figure of active processors, whose axis ends at all of them."""
    by_log = {
        subject.name: {
            name: results.weekly(subject, policies_of(subject)[name], lambda result: result.weekly.active)
            for name in ("two-level", "OLS")
        }
        for subject in subjects
    }
    return weeks_svg(by_log, tops={subject.name: float(subject.size) for subject in subjects})


def weeks_svg(
    by_log: Mapping[str, Mapping[str, ByWeek]], *, is_log: bool = False, tops: Mapping[str, float] | None = None
) -> str:
    """Return a figure with a panel for each log and a line for each policy, over the weeks of the log.

    The axis ends at the log's value of `tops`, if given. It is logarithmic from 1 on if `is_log`.
    """

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for (log, series), axes in zip(by_log.items(), panels, strict=False):
            axes.set_title(log)
            for name, values in series.items():
                report.plot_line(axes, name, POLICY_COLOURS[name], [week + 0.5 for week in range(len(values))], values)
            axes.set_xlim(left=0.0)
            axes.locator_params(axis="x", integer=True)
            if is_log:
                report.set_log_axis(axes, bottom=1.0)
            else:
                axes.set_ylim(0.0, tops[log] if tops else None)
        for axes in panels[len(by_log) :]:
            axes.set_visible(False)
        panels[len(by_log) - 1].set_xlabel("week")
        report.add_legend(figure, panels[0], len(POLICY_COLOURS))

    rows = -(-len(by_log) // 2)
    return report.draw_figure(rows, 2, height_in=0.5 + 2.1 * rows, draw=draw)
