"""Tables of savings: every log, the paper's ratios beside ours, and what the paper's own figures imply."""

from collections.abc import Sequence

import numpy as np

from studies.dynamic_pricing.answers import GREEDY, KNAPSACK, Answers
from studies.dynamic_pricing.arrange import arranged, offered_load
from studies.dynamic_pricing.factors import letter_change, ratio_change
from studies.dynamic_pricing.paper import ANL_BGP, POWER_RATIOS, PRICE_RATIOS, SDSC_BLUE, implied_on_peak_share
from studies.dynamic_pricing.subject import Subject
from studies.report import Cell, Table

HOUR_S = 3600
RANGES = "In brackets the lowest and the highest of the replays."
POLICIES = {"greedy": GREEDY, "knapsack": KNAPSACK}


def logs_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return a row a log: what it is like, and what the policies save at the starting point."""
    return Table(
        "logs",
        "Every log as it is, at the starting point",
        "Savings in per cent of the bill under EASY. The ceiling is what the best order could save if on-peak and "
        "off-peak hours kept their node-hours. Run: the mean run time of a node-hour's job; it and the mean waits are "
        f"in hours. {RANGES}",
        (
            "log",
            "jobs",
            "load",
            "run",
            "ceiling",
            *POLICIES,
            "knapsack to the letter",
            "wait EASY",
            *(f"wait {name}" for name in POLICIES),
        ),
        tuple(_log_row(answers, subject) for subject in subjects),
    )


def _log_row(answers: Answers, subject: Subject) -> tuple[Cell, ...]:
    jobs, size = arranged(subject.log, subject.base.setup)
    letter = letter_change(subject.base.setup.max_postponement_s).of(subject.base)
    return (
        subject.name,
        f"{len(jobs):,}",
        f"{100 * offered_load(jobs, size):.0f} %",
        float(np.average(jobs.runtime_s, weights=jobs.size * jobs.runtime_s)) / HOUR_S,
        answers.ceiling(subject, subject.base),
        *(answers.saved(subject, subject.base, policy) for policy in POLICIES.values()),
        answers.saved(subject, letter, GREEDY),
        *(answers.wait_s(subject, subject.base, policy) / HOUR_S for policy in (0, *POLICIES.values())),
    )


def paper_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return the paper's first table beside ours."""
    headers = [header for ratio in PRICE_RATIOS for header in (f"prices 1:{ratio:g}", f"paper 1:{ratio:g}")]
    return Table(
        "paper",
        "The paper's ratios",
        f"Savings in per cent by power ratio and price ratio. {RANGES}",
        ("log", "paper's log", "power", "policy", *headers),
        tuple(
            _paper_row(answers, subject, power_ratio, policy)
            for subject in subjects
            for power_ratio in POWER_RATIOS
            for policy in POLICIES
        ),
    )


def _paper_row(answers: Answers, subject: Subject, power_ratio: float, policy: str) -> tuple[Cell, ...]:
    theirs = subject.paper.savings[power_ratio, policy] if subject.paper else (None,) * len(PRICE_RATIOS)
    cells: list[Cell] = []
    for price_ratio, figure in zip(PRICE_RATIOS, theirs, strict=True):
        variant = ratio_change(power_ratio, price_ratio).of(subject.base)
        cells += [answers.saved(subject, variant, POLICIES[policy]), figure]
    return (subject.name, subject.paper.name if subject.paper else "", f"1:{power_ratio:g}", policy, *cells)


def ratios_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return the same for every log, means alone."""
    return Table(
        "ratios",
        "The paper's ratios on every log as it is",
        "Mean savings in per cent by power ratio and price ratio.",
        ("log", "power", *(f"{policy} 1:{ratio:g}" for policy in POLICIES for ratio in PRICE_RATIOS)),
        tuple(_ratio_row(answers, subject, power_ratio) for subject in subjects for power_ratio in POWER_RATIOS),
    )


def _ratio_row(answers: Answers, subject: Subject, power_ratio: float) -> tuple[Cell, ...]:
    variants = [ratio_change(power_ratio, price_ratio).of(subject.base) for price_ratio in PRICE_RATIOS]
    means = (answers.saved(subject, variant, policy).mean for policy in POLICIES.values() for variant in variants)
    return (subject.name, f"1:{power_ratio:g}", *means)


def implied_table() -> Table:
    """Return what the paper's savings say of its own on-peak share, by price ratios."""
    rows: list[tuple[Cell, ...]] = []
    for paper in (ANL_BGP, SDSC_BLUE):
        for (power_ratio, policy), (first, *others) in paper.savings.items():
            pairs = zip(PRICE_RATIOS[1:], others, strict=True)
            shares = (implied_on_peak_share(price_ratio, saving / first) for price_ratio, saving in pairs)
            rows.append((paper.name, f"1:{power_ratio:g}", policy, *shares))
    return Table(
        "implied",
        "The share of energy used on-peak that the paper's own figures imply",
        "From its savings at two price ratios each. As no policy is told the ratio, both figures of a row must agree, "
        "and all rows of a log nearly.",
        ("paper's log", "power", "policy", *(f"from 1:3 and 1:{ratio:g}" for ratio in PRICE_RATIOS[1:])),
        tuple(rows),
    )
