"""Tables of what makes a difference: each assumption alone, the ladder, the frequency, and holding jobs back."""

from collections.abc import Sequence

from studies.dynamic_pricing.answers import GREEDY, KNAPSACK, Answers
from studies.dynamic_pricing.factors import BOUNDS, NO_IDLE_POWER, PERIODS_S, letter_change, period_change, period_text
from studies.dynamic_pricing.plan import changes_alone, ladder_of
from studies.dynamic_pricing.subject import Subject
from studies.dynamic_pricing.variant import Variant
from studies.report import Cell, Range, Table

HOUR_S = 3600
BOTH = (GREEDY, KNAPSACK)
START = ("starting point", "")


def alone_table(answers: Answers, subject: Subject, number: int) -> Table:
    """Return a row a change that is made alone on a log."""
    base = subject.base
    rows = [(*START, *_saved(answers, subject, base, base))]
    rows += [
        (change.what, change.how, *_saved(answers, subject, change.of(base), base)) for change in changes_alone(subject)
    ]
    return Table(
        f"alone{number}",
        f"One assumption at a time: {subject.name}",
        "Savings in per cent, and how many points that is above the starting point in the same replays; where the "
        "bracket holds 0 it may be chance.",
        ("assumption", "made otherwise", "greedy", "more", "knapsack", "more"),
        tuple(rows),
    )


def ladder_table(answers: Answers, subject: Subject, number: int) -> Table:
    """Return a row a rung: changes one after the other, each on top of those before."""
    before = subject.base
    rows = [(*START, *_saved(answers, subject, before, before), answers.ceiling(subject, before))]
    for change, variant in ladder_of(subject):
        # Where whole jobs have the price of their start the ceiling is none.
        ceiling = answers.ceiling(subject, variant) if variant.bill.metered == "as_run" else None
        rows.append((change.what, change.how, *_saved(answers, subject, variant, before), ceiling))
        before = variant
    return Table(
        f"ladder{number}",
        f"The ladder: {subject.name}",
        "Savings in per cent with this change and all above it, how many points it added, and what the best order "
        "could save if on-peak and off-peak hours kept their node-hours. " + _paper_note(subject),
        ("assumption", "made otherwise", "greedy", "added", "knapsack", "added", "ceiling"),
        tuple(rows),
    )


def _paper_note(subject: Subject) -> str:
    if subject.paper is None:
        return ""
    greedy, knapsack = (subject.paper.savings[3.0, policy][0] for policy in ("greedy", "knapsack"))
    return f"The paper has {greedy:.2f} and {knapsack:.2f} on {subject.paper.name}."


def _saved(answers: Answers, subject: Subject, variant: Variant, base: Variant) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for policy in BOTH:
        more: Range | None = answers.saved_more(subject, variant, base, policy) if variant != base else None
        cells += [answers.saved(subject, variant, policy), more]
    return tuple(cells)


def frequency_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return a row a period: savings, utilizations and waits, the paper's beside them."""
    return Table(
        "frequency",
        "Scheduling frequency",
        "A pass each period. Savings, and utilizations from the first submission to the last end, in per cent; mean "
        "wait in hours, and how many seconds longer it is under the policies.",
        (
            "log",
            "period",
            "greedy",
            "paper",
            "knapsack",
            "paper",
            "utilization EASY, greedy, knapsack",
            "paper FCFS, greedy, knapsack",
            "wait EASY",
            "greedy, knapsack",
        ),
        tuple(_frequency_row(answers, subject, period_s) for subject in subjects for period_s in PERIODS_S),
    )


def _frequency_row(answers: Answers, subject: Subject, period_s: int) -> tuple[Cell, ...]:
    variant = period_change(period_s).of(subject.base)
    greedy, knapsack = (answers.saved(subject, variant, policy) for policy in BOTH)
    theirs = subject.paper.frequencies.get(period_s) if subject.paper else None
    waits_s = [answers.wait_s(subject, variant, policy) for policy in (0, *BOTH)]
    return (
        subject.name,
        period_text(period_s),
        greedy,
        theirs.greedy if theirs else None,
        knapsack,
        theirs.knapsack if theirs else None,
        _listed([answers.utilization(subject, variant, policy) for policy in (0, *BOTH)]),
        _listed([theirs.fcfs_utilization, theirs.greedy_utilization, theirs.knapsack_utilization]) if theirs else None,
        waits_s[0] / HOUR_S,
        ", ".join(f"{wait_s - waits_s[0]:+,.0f}" for wait_s in waits_s[1:]),
    )


def _listed(figures: Sequence[float]) -> str:
    return ", ".join(f"{figure:.1f}" for figure in figures)


def letter_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return what the knapsack to the letter saves, by the time for which it may hold jobs back."""
    return Table(
        "letter",
        "The knapsack to the letter, which holds all jobs back on-peak",
        "It differs from the others in that it leaves nodes idle. A job that was passed over or held back for longer "
        "than the bound keeps its place. Savings and utilizations in per cent, mean waits in hours.",
        (
            "log",
            "bound",
            "saved",
            "if idle nodes draw nothing",
            "utilization EASY",
            "to the letter",
            "wait EASY",
            "to the letter",
        ),
        tuple(_letter_row(answers, subject, bound) for subject in subjects for bound in BOUNDS),
    )


def _letter_row(answers: Answers, subject: Subject, bound: str) -> tuple[Cell, ...]:
    variant = letter_change(BOUNDS[bound]).of(subject.base)
    saved = (answers.saved(subject, each, 1) for each in (variant, NO_IDLE_POWER.of(variant)))
    utilizations = (answers.utilization(subject, variant, policy) for policy in (0, 1))
    waits_h = (answers.wait_s(subject, variant, policy) / HOUR_S for policy in (0, 1))
    return (subject.name, bound, *saved, *utilizations, *waits_h)
