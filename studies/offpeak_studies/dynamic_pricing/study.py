"""The study as a whole: its experiments, its figures, and its report."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from offpeak.report_tables import Report, StudyTable
from offpeak_studies import report
from offpeak_studies.dynamic_pricing import plan
from offpeak_studies.dynamic_pricing.run import PricingResult, arranged, run
from offpeak_studies.dynamic_pricing.tables import (
    POLICIES,
    PricingResults,
    alone_table,
    frequency_table,
    implied_table,
    ladder_table,
    letter_table,
    logs_table,
    mira_table,
    month_of,
    month_ranges_table,
    months_table,
    paper_table,
)
from offpeak_studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from offpeak_studies.logs import find_logs, generated_note

RUN = "offpeak_studies.dynamic_pricing.run"
TITLE = "Dynamic pricing: Yang et al., SC 2013, re-run"
START_NOTE = (
    "starting point: EASY backfilling on both sides, a pass every 10 s, window of 20 jobs, overtaking ends after 24 h, "
    "users' estimates, 100 to 300 W per unit drawn uniformly for each job, 75 W idle, prices 1:3, on-peak 09:00-23:00"
)
CLOCK_NOTE = (
    "clock: on-peak hours hold in the log's own time zone, in UTC where its header names none; a log without a date "
    "begins on a Monday"
)


def dynamic_pricing(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    logs, left_out = find_logs(order.logs)
    everywhere, studied, stand_ins = plan.subjects_of(logs), plan.paper_subjects(logs), plan.mira_subjects(logs)
    replays = Replays(order.replays, order.seed)
    digests = {log.source.name: log.digest for log in logs}
    keys = {
        experiment: result_key(RUN, experiment, digests[experiment.log])
        for experiment in plan.planned(everywhere, studied, stand_ins, replays)
    }
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(PricingResult))
    results = PricingResults(results_of(runner, keys, order, progress), replays)
    replays_note = (
        f"{replays.describe()}, with submit times 0 to 60 s later and power drawn anew: {replays.describe_seeds()}; "
        f"{len(keys):,} experiments of two to three policies each"
    )
    notes = (START_NOTE, CLOCK_NOTE, replays_note, *generated_note(logs), *left_out)
    figures = {
        "ladder.svg": ladder_svg(results, studied),
        "months.svg": months_svg(results, monthly(studied, stand_ins)),
        "mira.svg": mira_svg(results, stand_ins),
    }
    return Report(TITLE, notes, _tables(results, everywhere, studied, stand_ins), figures)


def monthly(
    studied: Sequence[plan.PricingSubject], stand_ins: Sequence[plan.PricingSubject]
) -> tuple[plan.PricingSubject, ...]:
    """Return the logs whose months are replayed one by one: the paper's, and those that stand for Mira's as logged."""
    logged = (subject for subject in stand_ins if subject.base.setup.load is None)
    subjects = {subject.name: subject for subject in (*studied, *logged)}
    return tuple(subject for subject in subjects.values() if subject.months >= plan.FEWEST_MONTHS)


def _tables(
    results: PricingResults,
    everywhere: Sequence[plan.PricingSubject],
    studied: Sequence[plan.PricingSubject],
    stand_ins: Sequence[plan.PricingSubject],
) -> tuple[StudyTable, ...]:
    ladders = (ladder_table(results, subject, number) for number, subject in enumerate(studied, start=1))
    alone = (alone_table(results, subject, number) for number, subject in enumerate(studied, start=1))
    return (
        paper_table(results, studied),
        frequency_table(results, studied),
        *ladders,
        *alone,
        month_ranges_table(results, monthly(studied, stand_ins)),
        months_table(results, monthly(studied, stand_ins)),
        mira_table(results, stand_ins),
        letter_table(results, studied),
        implied_table(),
        logs_table(results, everywhere),
    )


COLOURS = {"greedy": report.ORANGE, "knapsack": report.BLUE}


def ladder_svg(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> str:
    """Return the figure: a panel for each log, a row for each rung of the ladder, and the paper's savings as lines."""

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for subject, axes in zip(subjects, panels, strict=True):
            _plot_ladder(results, subject, axes)
        report.add_legend(figure, panels[0], len(POLICIES))

    row_counts = [len(plan.ladder_of(subject)) + 1 for subject in subjects]
    height_in = 0.4 + sum(0.8 + 0.3 * count for count in row_counts)
    return report.draw_figure(len(subjects), 1, height_in=height_in, draw=draw, height_ratios=row_counts)


def _plot_ladder(results: PricingResults, subject: plan.PricingSubject, axes: report.Axes) -> None:
    steps = [("starting point", subject.base)]
    steps += [(f"+ {change.what}: {change.how}", variant) for change, variant in plan.ladder_of(subject)]
    report.label_rows(axes, [label for label, _ in steps])
    axes.set_title(subject.name)
    axes.set_xlabel(f"saved [%]; dashed: the paper on {subject.paper.name}" if subject.paper else "saved [%]")
    for at, (name, policy) in enumerate(POLICIES.items()):
        saved = [results.saved(subject, variant, policy) for _, variant in steps]
        report.plot_ranges(axes, name, COLOURS[name], report.dodge(len(steps), at, len(POLICIES)), saved)
        if subject.paper:
            axes.axvline(subject.paper.savings[3.0, name][0], color=COLOURS[name], linestyle="--")
    axes.set_xlim(min(axes.get_xlim()[0], 0.0))


def months_svg(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> str:
    """Return the figure: a panel for each log, and what the policies save in each month."""

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for subject, axes in zip(subjects, panels, strict=False):
            axes.set_title(subject.name)
            axes.set_ylabel("saved [%]")
            for name, policy in POLICIES.items():
                saved = [results.saved(subject, month_of(subject, month), policy) for month in range(subject.months)]
                report.plot_line(
                    axes, name, COLOURS[name], range(1, subject.months + 1), [bar.mean for bar in saved], "o"
                )
        panels[-1].set_xlabel("month")
        if subjects:
            report.add_legend(figure, panels[0], len(POLICIES))

    rows = max(len(subjects), 1)
    return report.draw_figure(rows, 1, height_in=0.6 + 2.0 * rows, draw=draw)


def mira_svg(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> str:
    """Return the figure: mean draw and share of busy nodes by hour of the day, a row of panels for each log."""

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for subject, power, busy in zip(subjects, panels[::2], panels[1::2], strict=True):
            variant, size = plan.month_by_month(subject), arranged(subject.log, subject.base.setup)[1]
            for at, (name, colour) in enumerate({"EASY": report.GREY, **COLOURS}.items()):
                share = results.by_hour(subject, variant, at, "busy")
                draw_w = results.by_hour(subject, variant, at, "draw_w")
                draw_w = draw_w / size + variant.bill.idle_w * (1 - share)
                report.plot_line(power, name, colour, range(24), draw_w.tolist())
                report.plot_line(busy, name, colour, range(24), (100 * share).tolist())
            power.set_title(f"{subject.name}: draw [W per unit]")
            busy.set_title("busy [%]")
        report.add_legend(figure, panels[0], 1 + len(COLOURS))
        for axes in panels[-2:]:
            axes.set_xlabel("hour of the day")

    return report.draw_figure(len(subjects), 2, height_in=0.6 + 2.0 * len(subjects), draw=draw)
