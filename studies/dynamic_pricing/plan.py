"""What has to be run: all variants of all tables, and their experiments."""

from collections.abc import Iterator, Sequence
from functools import reduce

from studies.dynamic_pricing.experiment import Experiment
from studies.dynamic_pricing.factors import ALONE, BOUNDS, LADDER, PERIODS_S, letter_change, period_change, ratio_change
from studies.dynamic_pricing.paper import POWER_RATIOS
from studies.dynamic_pricing.subject import Subject
from studies.dynamic_pricing.variant import Change, Replays, Variant, experiments


def planned(everywhere: Sequence[Subject], studied: Sequence[Subject], replays: Replays) -> tuple[Experiment, ...]:
    """Return the experiments, each once, those of a log next to each other."""
    lines = [(subject, variant) for subject in (*everywhere, *studied) for variant in ratio_variants(subject)]
    lines += [(subject, variant) for subject in studied for variant in study_variants(subject)]
    found = dict.fromkeys(
        experiment
        for subject, variant in lines
        for group in experiments(variant, subject.log.source.name, subject.months, replays)
        for experiment in group
    )
    return tuple(sorted(found, key=lambda experiment: experiment.log))


def ratio_variants(subject: Subject) -> Iterator[Variant]:
    """Return the setups of the paper's first table, and the knapsack to the letter."""
    for power_ratio in POWER_RATIOS:
        yield ratio_change(power_ratio, subject.base.bill.price_ratio).of(subject.base)
    yield letter_change(subject.base.setup.max_postponement_s).of(subject.base)


def study_variants(subject: Subject) -> Iterator[Variant]:
    """Return the setups that are looked at closely."""
    changes = [*changes_alone(subject), *map(period_change, PERIODS_S), *map(letter_change, BOUNDS.values())]
    yield from (change.of(subject.base) for change in changes)
    yield from (variant for _, variant in ladder_of(subject))


def changes_alone(subject: Subject) -> tuple[Change, ...]:
    """Return the changes that are made alone on this log, without those that change nothing of it."""
    made = [(change, change.of(subject.base)) for change in (*ALONE, *subject.changes)]
    return tuple(change for change, variant in made if variant != subject.base and subject.can(variant))


def ladder_of(subject: Subject) -> list[tuple[Change, Variant]]:
    """Return the rungs of the ladder and what each leads to, without those for which the log is too short."""
    rungs = [change for change in LADDER if subject.can(change.of(subject.base))]
    reached = [
        reduce(lambda variant, change: change.of(variant), rungs[: count + 1], subject.base)
        for count in range(len(rungs))
    ]
    return list(zip(rungs, reached, strict=True))
