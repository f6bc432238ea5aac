"""The study as a whole: its experiments, its tables, its figure, and its report.

The tables: savings of every log beside the paper's, what the paper's figures imply, and each assumption.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from pydantic import TypeAdapter

from offpeak.display import percent_text
from offpeak.model.constants import HOUR_S
from studies import report
from studies.dynamic_pricing import plan
from studies.dynamic_pricing.run import PricingExperiment, PricingResult, arranged, ceiling_pct, run, saved_pct
from studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from studies.logs import find_logs, generated_note, offered_load

GREEDY, KNAPSACK = 1, 2
"""The positions of the policies in a setup, after the baseline."""


@dataclass(frozen=True)
class PricingResults:
    """All results of the study."""

    results: Mapping[PricingExperiment, PricingResult]
    replays: Replays

    def each(
        self, subject: plan.PricingSubject, variant: plan.Variant, figure: Callable[[PricingResult], float]
    ) -> list[float]:
        """Return a figure of each replay, the mean over the months where these are apart."""
        groups = plan.experiments(variant, subject.log.source.name, subject.months, self.replays)
        return [fmean(figure(self.results[experiment]) for experiment in group) for group in groups]

    def saved(self, subject: plan.PricingSubject, variant: plan.Variant, policy: int) -> report.Range:
        """Return what a policy saves [%]."""
        return report.range_of(self.each(subject, variant, partial(saved_pct, at=policy, bill=variant.bill)))

    def saved_more(
        self, subject: plan.PricingSubject, variant: plan.Variant, base: plan.Variant, policy: int
    ) -> report.Range:
        """Return by how many points it saves more than in another variant, in the same replays."""
        figures = (
            self.each(subject, compared, partial(saved_pct, at=policy, bill=compared.bill))
            for compared in (variant, base)
        )
        return report.range_of([here - there for here, there in zip(*figures, strict=True)])

    def ceiling(self, subject: plan.PricingSubject, variant: plan.Variant) -> report.Range:
        """Return what the best order could save [%] if node-hours on-peak stayed the same."""
        return report.range_of(self.each(subject, variant, partial(ceiling_pct, bill=variant.bill)))

    def utilization(self, subject: plan.PricingSubject, variant: plan.Variant, policy: int) -> float:
        """Return the mean utilization [%]."""
        return 100 * fmean(self.each(subject, variant, lambda result: result.policies[policy].utilization))

    def wait_s(self, subject: plan.PricingSubject, variant: plan.Variant, policy: int) -> float:
        """Return the mean of the mean waits [s]."""
        return fmean(self.each(subject, variant, lambda result: result.policies[policy].mean_wait_s))


RANGES = "In brackets the lowest and the highest of the replays."
POLICIES = {"greedy": GREEDY, "knapsack": KNAPSACK}


def logs_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> report.StudyTable:
    """Return a row for each log: its properties, and what the policies save at the starting point."""
    return report.StudyTable(
        "logs",
        "Every log at its original load, at the starting point",
        "Savings in per cent of the bill under EASY. The ceiling is the saving of the best order if on-peak and "
        "off-peak hours keep their node-hours. Run: the mean run time of jobs by node-hours; it and the mean waits are "
        f"in hours. {RANGES}",
        (
            "log", "jobs", "load", "run", "ceiling", *POLICIES, "knapsack to the letter", "wait EASY",
            *(f"wait {name}" for name in POLICIES),
        ),
        tuple(_log_row(results, subject) for subject in subjects),
    )  # fmt: skip


def _log_row(results: PricingResults, subject: plan.PricingSubject) -> tuple[report.TableCell, ...]:
    jobs, size = arranged(subject.log, subject.base.setup)
    letter = plan.letter_change(subject.base.setup.max_postponement_s).of(subject.base)
    return (
        subject.name,
        f"{len(jobs):,}",
        percent_text(100 * offered_load(jobs, size)),
        float(np.average(jobs.runtime_s, weights=jobs.size * jobs.runtime_s)) / HOUR_S,
        results.ceiling(subject, subject.base),
        *(results.saved(subject, subject.base, policy) for policy in POLICIES.values()),
        results.saved(subject, letter, GREEDY),
        *(results.wait_s(subject, subject.base, policy) / HOUR_S for policy in (0, *POLICIES.values())),
    )


def paper_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> report.StudyTable:
    """Return the paper's first table beside ours."""
    headers = [header for ratio in plan.PRICE_RATIOS for header in (f"prices 1:{ratio:g}", f"paper 1:{ratio:g}")]
    return report.StudyTable(
        "paper",
        "The paper's ratios",
        f"Savings in per cent by power ratio and price ratio. {RANGES}",
        ("log", "paper's log", "power", "policy", *headers),
        tuple(
            _paper_row(results, subject, power_ratio, policy)
            for subject in subjects
            for power_ratio in plan.POWER_RATIOS
            for policy in POLICIES
        ),
    )


def _paper_row(
    results: PricingResults, subject: plan.PricingSubject, power_ratio: float, policy: str
) -> tuple[report.TableCell, ...]:
    theirs = subject.paper.savings[power_ratio, policy] if subject.paper else (None,) * len(plan.PRICE_RATIOS)
    cells: list[report.TableCell] = []
    for price_ratio, figure in zip(plan.PRICE_RATIOS, theirs, strict=True):
        variant = plan.ratio_change(power_ratio, price_ratio).of(subject.base)
        cells += [results.saved(subject, variant, POLICIES[policy]), figure]
    return (subject.name, subject.paper.name if subject.paper else "", f"1:{power_ratio:g}", policy, *cells)


def ratios_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> report.StudyTable:
    """Return the savings at the paper's ratios for every log, means alone."""
    return report.StudyTable(
        "ratios",
        "The paper's ratios on every log at its original load",
        "Mean savings in per cent by power ratio and price ratio.",
        ("log", "power", *(f"{policy} 1:{ratio:g}" for policy in POLICIES for ratio in plan.PRICE_RATIOS)),
        tuple(_ratio_row(results, subject, power_ratio) for subject in subjects for power_ratio in plan.POWER_RATIOS),
    )


def _ratio_row(
    results: PricingResults, subject: plan.PricingSubject, power_ratio: float
) -> tuple[report.TableCell, ...]:
    variants = [plan.ratio_change(power_ratio, price_ratio).of(subject.base) for price_ratio in plan.PRICE_RATIOS]
    means = (results.saved(subject, variant, policy).mean for policy in POLICIES.values() for variant in variants)
    return (subject.name, f"1:{power_ratio:g}", *means)


def implied_table() -> report.StudyTable:
    """Return the on-peak share that the paper's savings imply, by price ratios."""
    rows: list[tuple[report.TableCell, ...]] = []
    for paper in (plan.ANL_BGP, plan.SDSC_BLUE):
        for (power_ratio, policy), (first, *others) in paper.savings.items():
            pairs = zip(plan.PRICE_RATIOS[1:], others, strict=True)
            shares = (plan.implied_on_peak_share(price_ratio, saving / first) for price_ratio, saving in pairs)
            rows.append((paper.name, f"1:{power_ratio:g}", policy, *shares))
    return report.StudyTable(
        "implied",
        "The share of energy used on-peak that the paper's own figures imply",
        "From the savings at two price ratios each. No policy knows the ratio, so both figures of a row must agree, "
        "and the rows of a log must nearly agree.",
        ("paper's log", "power", "policy", *(f"from 1:3 and 1:{ratio:g}" for ratio in plan.PRICE_RATIOS[1:])),
        tuple(rows),
    )


BOTH = (GREEDY, KNAPSACK)
START = ("starting point", "")


def alone_table(results: PricingResults, subject: plan.PricingSubject, number: int) -> report.StudyTable:
    """Return a row for each change that is made alone on a log."""
    base = subject.base
    rows = [(*START, *_saved(results, subject, base, base))]
    rows += [
        (change.what, change.how, *_saved(results, subject, change.of(base), base))
        for change in plan.changes_alone(subject)
    ]
    return report.StudyTable(
        f"alone{number}",
        f"One assumption at a time: {subject.name}",
        "Savings in per cent, and the difference from the starting point in percentage points over the same replays; a "
        "difference whose bracket contains 0 may be random.",
        ("assumption", "changed to", "greedy", "more", "knapsack", "more"),
        tuple(rows),
    )


def ladder_table(results: PricingResults, subject: plan.PricingSubject, number: int) -> report.StudyTable:
    """Return a row for each rung: changes one after the other, each on top of those before."""
    before = subject.base
    rows = [(*START, *_saved(results, subject, before, before), results.ceiling(subject, before))]
    for change, variant in plan.ladder_of(subject):
        # Where whole jobs have the price of their start the ceiling is none.
        ceiling = results.ceiling(subject, variant) if variant.bill.metered == "as_run" else None
        rows.append((change.what, change.how, *_saved(results, subject, variant, before), ceiling))
        before = variant
    return report.StudyTable(
        f"ladder{number}",
        f"Cumulative changes: {subject.name}",
        "Savings in per cent with this change and all above it, the percentage points that it adds, and the saving of "
        "the best order if on-peak and off-peak hours keep their node-hours. " + _paper_note(subject),
        ("assumption", "changed to", "greedy", "added", "knapsack", "added", "ceiling"),
        tuple(rows),
    )


def _paper_note(subject: plan.PricingSubject) -> str:
    if subject.paper is None:
        return ""
    greedy, knapsack = (subject.paper.savings[3.0, policy][0] for policy in ("greedy", "knapsack"))
    return f"The paper has {greedy:.2f} and {knapsack:.2f} on {subject.paper.name}."


def _saved(
    results: PricingResults, subject: plan.PricingSubject, variant: plan.Variant, base: plan.Variant
) -> tuple[report.TableCell, ...]:
    cells: list[report.TableCell] = []
    for policy in BOTH:
        more: report.Range | None = results.saved_more(subject, variant, base, policy) if variant != base else None
        cells += [results.saved(subject, variant, policy), more]
    return tuple(cells)


def frequency_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> report.StudyTable:
    """Return a row for each period: savings, utilizations and waits, the paper's beside them."""
    return report.StudyTable(
        "frequency",
        "Scheduling frequency",
        "One pass in each period. Savings, and utilizations from the first submission to the last end, in per cent; "
        "mean wait in hours, and its change under the policies in seconds.",
        (
            "log", "period", "greedy", "paper", "knapsack", "paper", "utilization EASY, greedy, knapsack",
            "paper FCFS, greedy, knapsack", "wait EASY", "greedy, knapsack",
        ),
        tuple(_frequency_row(results, subject, period_s) for subject in subjects for period_s in plan.PERIODS_S),
    )  # fmt: skip


def _frequency_row(
    results: PricingResults, subject: plan.PricingSubject, period_s: int
) -> tuple[report.TableCell, ...]:
    variant = plan.period_change(period_s).of(subject.base)
    greedy, knapsack = (results.saved(subject, variant, policy) for policy in BOTH)
    theirs = subject.paper.frequencies.get(period_s) if subject.paper else None
    waits_s = [results.wait_s(subject, variant, policy) for policy in (0, *BOTH)]
    return (
        subject.name,
        plan.period_text(period_s),
        greedy,
        theirs.greedy if theirs else None,
        knapsack,
        theirs.knapsack if theirs else None,
        _listed([results.utilization(subject, variant, policy) for policy in (0, *BOTH)]),
        _listed([theirs.fcfs_utilization, theirs.greedy_utilization, theirs.knapsack_utilization]) if theirs else None,
        waits_s[0] / HOUR_S,
        ", ".join(f"{wait_s - waits_s[0]:+,.0f}" for wait_s in waits_s[1:]),
    )


def _listed(figures: Sequence[float]) -> str:
    return ", ".join(f"{figure:.1f}" for figure in figures)


def letter_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> report.StudyTable:
    """Return the saving of the knapsack to the letter, by the time for which it may hold jobs back."""
    return report.StudyTable(
        "letter",
        "The knapsack to the letter, which holds all jobs back on-peak",
        "Unlike the others, this policy leaves nodes idle. A job that was overtaken or held back for longer than the "
        "bound keeps its place. Savings and utilizations in per cent, mean waits in hours.",
        (
            "log", "bound", "saved", "if idle nodes draw nothing", "utilization EASY", "to the letter", "wait EASY",
            "to the letter",
        ),
        tuple(_letter_row(results, subject, bound) for subject in subjects for bound in plan.BOUNDS),
    )  # fmt: skip


def _letter_row(results: PricingResults, subject: plan.PricingSubject, bound: str) -> tuple[report.TableCell, ...]:
    variant = plan.letter_change(plan.BOUNDS[bound]).of(subject.base)
    saved = (results.saved(subject, changed, 1) for changed in (variant, plan.NO_IDLE_POWER.of(variant)))
    utilizations = (results.utilization(subject, variant, policy) for policy in (0, 1))
    waits_h = (results.wait_s(subject, variant, policy) / HOUR_S for policy in (0, 1))
    return (subject.name, bound, *saved, *utilizations, *waits_h)


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


def dynamic_pricing(order: StudyOrder, progress: Progress) -> report.Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    report.require_matplotlib()
    logs, left_out = find_logs(order.logs)
    everywhere, studied = plan.subjects_of(logs), plan.paper_subjects(logs)
    replays = Replays(order.replays, order.seed)
    digests = {log.source.name: log.digest for log in logs}
    keys = {
        experiment: result_key(RUN, experiment, digests[experiment.log])
        for experiment in plan.planned(everywhere, studied, replays)
    }
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(PricingResult))
    results = PricingResults(results_of(runner, keys, order, progress), replays)
    replays_note = (
        f"{replays.describe()}, with submit times 0 to 60 s later and power drawn anew: {replays.describe_seeds()}; "
        f"{len(keys):,} experiments of two to three policies each"
    )
    notes = (START_NOTE, CLOCK_NOTE, replays_note, *generated_note(logs), *left_out)
    return report.Report(
        TITLE, notes, _tables(results, everywhere, studied), {"ladder.svg": ladder_svg(results, studied)}
    )


def _tables(
    results: PricingResults, everywhere: Sequence[plan.PricingSubject], studied: Sequence[plan.PricingSubject]
) -> tuple[report.StudyTable, ...]:
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
