"""The study as a whole: plans the experiments, runs those without a result, and builds the report and its figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from studies.dynamic_pricing.plan import PricingSubject, ladder_of, paper_subjects, planned, subjects_of
from studies.dynamic_pricing.run import PricingExperiment, PricingResult, PricingSetup, run
from studies.dynamic_pricing.tables import (
    POLICIES,
    PricingResults,
    alone_table,
    frequency_table,
    implied_table,
    ladder_table,
    letter_table,
    logs_table,
    paper_table,
    ratios_table,
)
from studies.figures import BLUE, ORANGE, add_legend, dodge, draw_figure, label_rows, plot_ranges, require_matplotlib
from studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from studies.logs import GENERATED, LogSource, find_logs, generated_note, read_log
from studies.report import Report, StudyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN = "studies.dynamic_pricing.run"
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
    """Run the experiments whose results `order.out` does not have, and return the report.

    Raises BadInput, CannotWrite or OffpeakError.
    """
    require_matplotlib()
    logs, left_out = find_logs(order.logs)
    everywhere, studied = subjects_of(logs), paper_subjects(logs)
    replays = Replays(order.replays, order.seed)
    digests = {log.source.name: log.digest for log in logs}
    keys = {
        experiment: result_key(RUN, experiment, digests[experiment.log])
        for experiment in planned(everywhere, studied, replays)
    }
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(PricingResult), _warm_up)
    results = PricingResults(results_of(runner, keys, order, progress), replays)
    replays_note = (
        f"{replays.describe()}, with submit times 0 to 60 s later and power drawn anew: {replays.describe_seeds()}; "
        f"{len(keys):,} experiments of two to three policies each"
    )
    notes = (START_NOTE, CLOCK_NOTE, replays_note, *generated_note(logs), *left_out)
    return Report(TITLE, notes, _tables(results, everywhere, studied), {"ladder.svg": ladder_svg(results, studied)})


def _warm_up() -> None:
    run(PricingExperiment(GENERATED, 0, 0, PricingSetup(first_jobs=100)), read_log(LogSource(GENERATED, None)))


def _tables(
    results: PricingResults, everywhere: Sequence[PricingSubject], studied: Sequence[PricingSubject]
) -> tuple[StudyTable, ...]:
    ladders = (ladder_table(results, subject, number) for number, subject in enumerate(studied, start=1))
    alone = (alone_table(results, subject, number) for number, subject in enumerate(studied, start=1))
    return (
        paper_table(results, studied),
        frequency_table(results, studied),
        *ladders,
        *alone,
        letter_table(results, studied),
        implied_table(),
        logs_table(results, everywhere),
        ratios_table(results, everywhere),
    )


COLOURS = {"greedy": ORANGE, "knapsack": BLUE}


def ladder_svg(results: PricingResults, subjects: Sequence[PricingSubject]) -> str:
    """Return the figure: a panel for each log, a row for each rung of the ladder, and the paper's savings as lines."""

    def draw(figure: "Figure", panels: Sequence["Axes"]) -> None:
        for subject, axes in zip(subjects, panels, strict=True):
            _plot_ladder(results, subject, axes)
        add_legend(figure, panels[0], len(POLICIES))

    row_counts = [len(ladder_of(subject)) + 1 for subject in subjects]
    height_in = 0.4 + sum(0.8 + 0.3 * count for count in row_counts)
    return draw_figure(len(subjects), 1, height_in=height_in, draw=draw, height_ratios=row_counts)


def _plot_ladder(results: PricingResults, subject: PricingSubject, axes: "Axes") -> None:
    steps = [("starting point", subject.base)]
    steps += [(f"+ {change.what}: {change.how}", variant) for change, variant in ladder_of(subject)]
    label_rows(axes, [label for label, _ in steps])
    axes.set_title(subject.name)
    axes.set_xlabel(f"saved [%]; dashed: the paper on {subject.paper.name}" if subject.paper else "saved [%]")
    for at, (name, policy) in enumerate(POLICIES.items()):
        saved = [results.saved(subject, variant, policy) for _, variant in steps]
        plot_ranges(axes, name, COLOURS[name], dodge(len(steps), at, len(POLICIES)), saved)
        if subject.paper:
            axes.axvline(subject.paper.savings[3.0, name][0], color=COLOURS[name], linestyle="--")
    axes.set_xlim(min(axes.get_xlim()[0], 0.0))
