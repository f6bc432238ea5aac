"""The tables: savings of every log beside the paper's, by ratio, period, month and hour, and each assumption.

The paper's savings by month and its case of Mira are bars and one number; ours are beside the ranges that it states.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from offpeak.display import percent_text
from offpeak.model.arrays import Float64
from offpeak.model.constants import HOUR_S
from offpeak.report_tables import Range, StudyTable, TableCell
from offpeak_studies import report
from offpeak_studies.dynamic_pricing import plan
from offpeak_studies.dynamic_pricing.run import PricingExperiment, PricingResult, arranged, ceiling_pct, saved_pct
from offpeak_studies.harness import Replays
from offpeak_studies.logs import offered_load

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

    def by_hour(self, subject: plan.PricingSubject, variant: plan.Variant, policy: int, column: str) -> Float64:
        """Return the mean of a column by hour over the replays, and over the months where these are apart."""
        groups = plan.experiments(variant, subject.log.source.name, subject.months, self.replays)
        each = [getattr(self.results[one].policies[policy], column) for group in groups for one in group]
        mean: Float64 = np.mean(each, axis=0)
        return mean

    def saved(self, subject: plan.PricingSubject, variant: plan.Variant, policy: int) -> Range:
        """Return what a policy saves [%]."""
        return report.range_of(self.each(subject, variant, partial(saved_pct, at=policy, bill=variant.bill)))

    def saved_more(self, subject: plan.PricingSubject, variant: plan.Variant, base: plan.Variant, policy: int) -> Range:
        """Return by how many points it saves more than in another variant, in the same replays."""
        figures = (
            self.each(subject, compared, partial(saved_pct, at=policy, bill=compared.bill))
            for compared in (variant, base)
        )
        return report.range_of([here - there for here, there in zip(*figures, strict=True)])

    def ceiling(self, subject: plan.PricingSubject, variant: plan.Variant) -> Range:
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


def logs_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return a row for each log: its properties, and what the policies save at the starting point."""
    return StudyTable(
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


def _log_row(results: PricingResults, subject: plan.PricingSubject) -> tuple[TableCell, ...]:
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


def paper_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return the paper's first table beside ours."""
    headers = [header for ratio in plan.PRICE_RATIOS for header in (f"prices 1:{ratio:g}", f"paper 1:{ratio:g}")]
    return StudyTable(
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
) -> tuple[TableCell, ...]:
    theirs = subject.paper.savings[power_ratio, policy] if subject.paper else (None,) * len(plan.PRICE_RATIOS)
    cells: list[TableCell] = []
    for price_ratio, figure in zip(plan.PRICE_RATIOS, theirs, strict=True):
        variant = plan.ratio_change(power_ratio, price_ratio).of(subject.base)
        cells += [results.saved(subject, variant, POLICIES[policy]), figure]
    return (subject.name, subject.paper.name if subject.paper else "", f"1:{power_ratio:g}", policy, *cells)


def implied_table() -> StudyTable:
    """Return the on-peak share that the paper's savings imply, by price ratios."""
    rows: list[tuple[TableCell, ...]] = []
    for paper in (plan.ANL_BGP, plan.SDSC_BLUE):
        for (power_ratio, policy), (first, *others) in paper.savings.items():
            pairs = zip(plan.PRICE_RATIOS[1:], others, strict=True)
            shares = (plan.implied_on_peak_share(price_ratio, saving / first) for price_ratio, saving in pairs)
            rows.append((paper.name, f"1:{power_ratio:g}", policy, *shares))
    return StudyTable(
        "implied",
        "The share of energy used on-peak that the paper's own figures imply",
        "From the savings at two price ratios each. No policy knows the ratio, so both figures of a row must agree, "
        "and the rows of a log must nearly agree.",
        ("paper's log", "power", "policy", *(f"from 1:3 and 1:{ratio:g}" for ratio in plan.PRICE_RATIOS[1:])),
        tuple(rows),
    )


BOTH = (GREEDY, KNAPSACK)
START = ("starting point", "")


def alone_table(results: PricingResults, subject: plan.PricingSubject, number: int) -> StudyTable:
    """Return a row for each change that is made alone on a log."""
    base = subject.base
    rows = [(*START, *_saved(results, subject, base, base))]
    rows += [
        (change.what, change.how, *_saved(results, subject, change.of(base), base))
        for change in plan.changes_alone(subject)
    ]
    return StudyTable(
        f"alone{number}",
        f"One assumption at a time: {subject.name}",
        "Savings in per cent, and the difference from the starting point in percentage points over the same replays; a "
        "difference whose bracket contains 0 may be random.",
        ("assumption", "changed to", "greedy", "more", "knapsack", "more"),
        tuple(rows),
    )


def ladder_table(results: PricingResults, subject: plan.PricingSubject, number: int) -> StudyTable:
    """Return a row for each rung: changes one after the other, each on top of those before."""
    before = subject.base
    rows = [(*START, *_saved(results, subject, before, before), results.ceiling(subject, before))]
    for change, variant in plan.ladder_of(subject):
        # Where whole jobs have the price of their start the ceiling is none.
        ceiling = results.ceiling(subject, variant) if variant.bill.metered == "as_run" else None
        rows.append((change.what, change.how, *_saved(results, subject, variant, before), ceiling))
        before = variant
    return StudyTable(
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
) -> tuple[TableCell, ...]:
    cells: list[TableCell] = []
    for policy in BOTH:
        more: Range | None = results.saved_more(subject, variant, base, policy) if variant != base else None
        cells += [results.saved(subject, variant, policy), more]
    return tuple(cells)


def frequency_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return a row for each period: savings, utilizations and waits, the paper's beside them."""
    return StudyTable(
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


def _frequency_row(results: PricingResults, subject: plan.PricingSubject, period_s: int) -> tuple[TableCell, ...]:
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


def letter_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return the saving of the knapsack to the letter, by the time for which it may hold jobs back."""
    return StudyTable(
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


def _letter_row(results: PricingResults, subject: plan.PricingSubject, bound: str) -> tuple[TableCell, ...]:
    variant = plan.letter_change(plan.BOUNDS[bound]).of(subject.base)
    saved = (results.saved(subject, changed, 1) for changed in (variant, plan.NO_IDLE_POWER.of(variant)))
    utilizations = (results.utilization(subject, variant, policy) for policy in (0, 1))
    waits_h = (results.wait_s(subject, variant, policy) / HOUR_S for policy in (0, 1))
    return (subject.name, bound, *saved, *utilizations, *waits_h)


def months_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return a row for each month of the logs that have some, each replayed from an empty machine."""
    return StudyTable(
        "months",
        "Savings by month",
        "Each 30 days of a log by themselves. Savings, and utilizations from the first submission to the last end, in "
        f"per cent; the mean wait in hours, and its change under the policies in seconds. {RANGES}",
        (
            "log", "month", "jobs", *POLICIES, "utilization EASY, greedy, knapsack", "wait EASY", "greedy, knapsack",
        ),
        tuple(
            (subject.name, str(month + 1), *_month_row(results, subject, month))
            for subject in subjects
            for month in range(subject.months)
        ),
    )  # fmt: skip


def month_of(subject: plan.PricingSubject, month: int) -> plan.Variant:
    """Return the starting point in one month of the log."""
    return plan.PricingChange("month", "", setup={"month": month}).of(subject.base)


def _month_row(results: PricingResults, subject: plan.PricingSubject, month: int) -> tuple[TableCell, ...]:
    variant = month_of(subject, month)
    waits_s = [results.wait_s(subject, variant, policy) for policy in (0, *BOTH)]
    return (
        f"{len(arranged(subject.log, variant.setup)[0]):,}",
        *(results.saved(subject, variant, policy) for policy in BOTH),
        _listed([results.utilization(subject, variant, policy) for policy in (0, *BOTH)]),
        waits_s[0] / HOUR_S,
        ", ".join(f"{wait_s - waits_s[0]:+,.0f}" for wait_s in waits_s[1:]),
    )


def month_ranges_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return the mean and the extremes of the months beside what the slides state about theirs."""
    paper = tuple((plan.MONTHLY_LOGS, *row) for row in plan.MONTHLY.items())
    rows = [
        (log, policy, "", str(mean), f"{low:g} to {high:g}", "below 5", "at most 10")
        for log, policy, (mean, low, high) in paper
    ]
    ours = [
        (subject.name, policy, str(subject.months), *_month_ranges(results, subject, POLICIES[policy]))
        for subject in subjects
        if subject.months >= plan.FEWEST_MONTHS
        for policy in POLICIES
    ]
    return StudyTable(
        "month-ranges",
        "The months compared with the slides",
        "Means of the replays. Saved: the mean of the months, the lowest and the highest month, in per cent. Fall of "
        "the utilization: the month with the largest, in per cent of itself. Longer wait: the month with the largest "
        "increase of the mean wait, and the number of months in which it grows by more than 10 s.",
        ("log", "policy", "months", "saved", "in a month", "fall of utilization", "longer wait [s]"),
        (*ours, *rows),
    )


def _month_ranges(results: PricingResults, subject: plan.PricingSubject, policy: int) -> tuple[TableCell, ...]:
    months = [month_of(subject, month) for month in range(subject.months)]
    saved = [results.saved(subject, variant, policy).mean for variant in months]
    falls = [
        100 * (1 - results.utilization(subject, variant, policy) / results.utilization(subject, variant, 0))
        for variant in months
    ]
    longer_s = [results.wait_s(subject, variant, policy) - results.wait_s(subject, variant, 0) for variant in months]
    above = sum(seconds > plan.LONGER_WAIT_S for seconds in longer_s)
    return (
        fmean(saved),
        f"{min(saved):z.2f} to {max(saved):z.2f}",
        max(falls),
        f"{max(longer_s):+,.0f} ({above} above {plan.LONGER_WAIT_S})",
    )


def mira_table(results: PricingResults, subjects: Sequence[plan.PricingSubject]) -> StudyTable:
    """Return the logs that stand for Mira's, one assumption after the other, and the share of busy nodes by price."""
    rows: list[tuple[TableCell, ...]] = []
    for subject in subjects:
        start = plan.month_by_month(subject)
        rows += [
            (subject.name, *labels, *_mira_row(results, subject, variant))
            for labels, variant in [
                (START, start),
                *(((change.what, change.how), variant) for change, variant in plan.mira_ladder(subject)),
                *(
                    (("policy", f"to the letter, up to {bound}"), plan.letter_change(bound_s).of(start))
                    for bound, bound_s in plan.BOUNDS.items()
                ),
            ]
        ]
    return StudyTable(
        "mira",
        f"The case of Mira: logs that stand for its own; the paper saves {plan.MIRA_SAVED_PCT:.2f} %",
        f"Mira ran {plan.MIRA_JOBS:,} jobs in December 2012. Savings in per cent, with this change and all above it, "
        "but each row to the letter is changed from the starting point alone. Busy: the mean share of busy nodes in "
        "per cent on-peak and off-peak, from the first to the last submission, under EASY, greedy and knapsack (to the "
        f"letter: under EASY and that). {RANGES}",
        ("log", "assumption", "changed to", *POLICIES, "busy on-peak", "busy off-peak"),
        tuple(rows),
    )  # fmt: skip


def _mira_row(results: PricingResults, subject: plan.PricingSubject, variant: plan.Variant) -> tuple[TableCell, ...]:
    policies = range(len(variant.setup.policies))
    saved: list[TableCell] = [results.saved(subject, variant, policy) for policy in policies[1:]]
    if len(saved) == 1:
        saved.insert(0, None)
    on_peak = plan.on_peak_hours(variant.setup.on_peak)
    busy = [100 * results.by_hour(subject, variant, policy, "busy") for policy in policies]
    return (*saved, *(_listed([float(hours[where].mean()) for hours in busy]) for where in (on_peak, ~on_peak)))
