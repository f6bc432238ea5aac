"""A log with the setup that it is studied in, and what the paper has for it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from studies.dynamic_pricing.arrange import months_of
from studies.dynamic_pricing.experiment import Setup
from studies.dynamic_pricing.logs import Log
from studies.dynamic_pricing.paper import ANL_BGP, SDSC_BLUE, PaperLog
from studies.dynamic_pricing.variant import Change, Variant

FEWEST_MONTHS = 2


@dataclass(frozen=True)
class Counterpart:
    """Which of our logs stands for one of the paper's: its name begins so; `load` and `changes` are for it alone."""

    begins: str
    paper: PaperLog
    load: float | None
    changes: tuple[Change, ...]


COUNTERPARTS = (
    Counterpart(
        "SDSC-BLUE",
        SDSC_BLUE,
        None,
        (Change("period", "the first 144,830 jobs, as many as the paper has", setup={"first_jobs": 144_830}),),
    ),
    # Its 10,000 jobs ask for 32 % of the machine; nothing waits, so nothing can be reordered.
    Counterpart(
        "ANL-Intrepid",
        ANL_BGP,
        0.70,
        (
            Change("load", "as logged", setup={"load": None}),
            Change("machine", "2,048 nodes, wider jobs left out", setup={"machine_size": 4 * 2048}),
        ),
    ),
)


@dataclass(frozen=True)
class Subject:
    """A log, how it is named in tables, where its study starts from, and its whole months there."""

    name: str
    log: Log
    base: Variant
    months: int
    paper: PaperLog | None = None
    changes: tuple[Change, ...] = ()

    def can(self, variant: Variant) -> bool:
        """Say whether the log is long enough for the variant."""
        return not variant.months_apart or self.months >= FEWEST_MONTHS


def subjects_of(logs: Sequence[Log]) -> tuple[Subject, ...]:
    """Return each log as it is, and those that stand for the paper's."""
    return tuple(_subject(log, log.source.name, Setup()) for log in logs)


def paper_subjects(logs: Sequence[Log]) -> tuple[Subject, ...]:
    """Return the logs that stand for the paper's; the first log if there is none of them."""
    found = tuple(
        _counterpart(log, each) for each in COUNTERPARTS for log in logs if log.source.name.startswith(each.begins)
    )
    return found or subjects_of(logs[:1])


def _counterpart(log: Log, counterpart: Counterpart) -> Subject:
    name = log.source.name
    if counterpart.load is not None:
        name = f"{name} at {counterpart.load:.0%} load"
    subject = _subject(log, name, Setup(load=counterpart.load))
    return replace(subject, paper=counterpart.paper, changes=counterpart.changes)


def _subject(log: Log, name: str, setup: Setup) -> Subject:
    return Subject(name, log, Variant(setup), months_of(log, setup))
