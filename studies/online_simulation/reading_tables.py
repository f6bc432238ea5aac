"""Tables of what makes the difference: who knows the run times, and how the paper is read."""

from collections.abc import Sequence

from studies.online_simulation.answers import Answers, Figure, inactive_pct, slowdown, violations_pct
from studies.online_simulation.experiment import ALWAYS_ON, AS_SCHEDULER, DAILY, OLS, Setup
from studies.online_simulation.readings import KNOWLEDGE, Knowledge, estimated, readings_of
from studies.online_simulation.subject import Subject
from studies.online_simulation.tables import RANGES
from studies.report import Cell, Range, Table, range_of


def knowledge_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return what estimates do to the policies; the paper has exact ones and says that others change little."""
    return Table(
        "knowledge",
        "Who knows the run times",
        "What the scheduler knows, and OLS too unless said otherwise. Predicted: the mean of the user's last two run "
        f"times. {RANGES}",
        (
            "log",
            "known run times",
            "slowdown of all",
            "two-level",
            "OLS weekly",
            "OLS daily",
            "inactive, weekly [%]",
            "inactive, daily [%]",
            "above 200, weekly [%]",
        ),
        tuple(_knowledge_row(answers, subject, known) for subject in subjects for known in KNOWLEDGE),
    )


def _knowledge_row(answers: Answers, subject: Subject, known: Knowledge) -> tuple[Cell, ...]:
    capacities = (ALWAYS_ON, subject.two_level, OLS, DAILY)
    everything, low, weekly, daily = (estimated(subject.setup(each), known) for each in capacities)
    others: tuple[Cell, ...] = (None, None)
    if known.what_if == AS_SCHEDULER:
        others = (answers.of(subject, everything, slowdown), answers.of(subject, low, slowdown))
    return (
        subject.name,
        known.name,
        *others,
        *(answers.of(subject, setup, slowdown) for setup in (weekly, daily)),
        *(answers.of(subject, setup, inactive_pct) for setup in (weekly, daily)),
        answers.of(subject, weekly, violations_pct),
    )


def readings_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return weekly OLS with one thing read otherwise in each row."""
    return Table(
        "readings",
        "Weekly OLS, one thing made otherwise",
        f"{RANGES} Where weeks begin later, the log's first 8 to 13 days are left out, "
        "with a quarter as many replays of each.",
        ("log", "made otherwise", "slowdown", "inactive [%]", "jobs above 200 [%]"),
        tuple(
            (subject.name, name, *(_of_all(answers, subject, setups, figure) for figure in FIGURES))
            for subject in subjects
            for name, setups in (("nothing", (subject.setup(OLS),)), *readings_of(subject))
        ),
    )


FIGURES: tuple[Figure, ...] = (slowdown, inactive_pct, violations_pct)


def _of_all(answers: Answers, subject: Subject, setups: Sequence[Setup], figure: Figure) -> Range:
    return range_of([each for setup in setups for each in answers.each(subject, setup, figure)])
