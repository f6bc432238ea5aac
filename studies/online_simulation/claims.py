"""What the paper says of its figures, sentence by sentence, and whether our replays bear it out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from studies.online_simulation.answers import Answers, Figure, inactive_pct, slowdown, utilization_pct, worst_week
from studies.online_simulation.experiment import ALWAYS_ON, OLS, Setup
from studies.online_simulation.paper import SLA
from studies.online_simulation.subject import Subject
from studies.report import Cell, Range, Table

Measure = Callable[[Answers, Subject], Range]
WITH_TAILS = ("KTH-SP2", "SDSC-SP2")


def is_any(_: Subject) -> bool:
    """Of every log."""
    return True


def is_underused(subject: Subject) -> bool:
    """Of a machine that the paper sets aside, because its load is low."""
    return subject.paper is not None and subject.paper.underused


def is_busy(subject: Subject) -> bool:
    """Of the other machines."""
    return not is_underused(subject)


def has_tail(subject: Subject) -> bool:
    """Of logs whose slowdown rises towards the end."""
    return subject.name.startswith(WITH_TAILS)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the figure of ours beside it, the bounds that it sets, and of whom it is said."""

    text: str
    measure: Measure
    low: float
    high: float
    about: Callable[[Subject], bool] = is_any

    def holds(self, mean: float) -> bool:
        """Say whether a mean is within the bounds."""
        return self.low <= mean <= self.high


def _two_level(subject: Subject) -> Setup:
    return subject.setup(subject.two_level)


def _ols(subject: Subject) -> Setup:
    return subject.setup(OLS)


def _all(subject: Subject) -> Setup:
    return subject.setup(ALWAYS_ON)


def _of(setup: Callable[[Subject], Setup], figure: Figure) -> Measure:
    return lambda answers, subject: answers.of(subject, setup(subject), figure)


def _over(setup: Callable[[Subject], Setup], base: Callable[[Subject], Setup], figure: Figure) -> Measure:
    return lambda answers, subject: answers.over(subject, setup(subject), base(subject), figure)


CLAIMS = (
    Claim("all processors: CTC 55 % utilized", _of(_all, utilization_pct), 52.5, 57.5, is_underused),
    Claim("two-level: about 10 % inactive or more [%]", _of(_two_level, inactive_pct), 9.5, 100),
    Claim("two-level: utilization of 80 % or more [%]", _of(_two_level, utilization_pct), 80, 100),
    Claim("two-level: CTC utilization near 90 % [%]", _of(_two_level, utilization_pct), 85, 95, is_underused),
    Claim("two-level: slowdown at most 2.5 times that of all", _over(_two_level, _all, slowdown), 0, 2.5, is_busy),
    Claim("OLS: around 10 % inactive [%]", _of(_ols, inactive_pct), 5, 15, is_busy),
    Claim(
        "OLS: just above 55 % of CTC active, so below 45 % inactive [%]", _of(_ols, inactive_pct), 35, 45, is_underused
    ),
    Claim(f"OLS: slowdown within the SLA of {SLA:g}", _of(_ols, slowdown), 1, SLA),
    Claim("OLS: slowdown below two-level's", _over(_ols, _two_level, slowdown), 0, 1, is_busy),
    Claim("OLS: CTC slowdown slightly above two-level's", _over(_ols, _two_level, slowdown), 1, 1.5, is_underused),
    Claim("OLS: utilization slightly below two-level's", _over(_ols, _two_level, utilization_pct), 0.9, 1.0),
    Claim("OLS: worst week milder than two-level's", _over(_ols, _two_level, worst_week), 0, 1, has_tail),
)


def claims_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return a row a sentence: our figure on each log that it is about, and where it does not hold."""
    return Table(
        "claims",
        "The paper's sentences beside our figures",
        "Ratios are those of the same replays, in brackets the lowest and the highest of them. Empty where the "
        "sentence is not about the log. The last column names the logs whose mean does not bear it out.",
        ("the paper", *(subject.name for subject in subjects), "differs"),
        tuple(_row(answers, subjects, claim) for claim in CLAIMS),
    )


def _row(answers: Answers, subjects: Sequence[Subject], claim: Claim) -> tuple[Cell, ...]:
    found = {subject.name: claim.measure(answers, subject) for subject in subjects if claim.about(subject)}
    differs = ", ".join(name for name, figure in found.items() if not claim.holds(figure.mean))
    return (claim.text, *(found.get(subject.name) for subject in subjects), differs)
