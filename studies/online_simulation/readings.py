"""What the paper leaves open, each made otherwise: who knows the run times, whom OLS judges, when weeks begin."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from offpeak.model.local_time import DAY_S
from studies.online_simulation.experiment import AS_SCHEDULER, OLS, QUEUED_JOBS, Setup
from studies.online_simulation.subject import Subject, lower_level

FIRST_DAYS = range(8, 14)
"""The second week's days but its first: KTH-SP2 begins with a single job and four empty days."""


@dataclass(frozen=True)
class Knowledge:
    """What the scheduler and OLS know of run times, and how that is called."""

    name: str
    estimates: str
    what_if: str = AS_SCHEDULER


KNOWLEDGE = (
    Knowledge("exact", "exact"),
    Knowledge("users' estimates", "user"),
    Knowledge("predicted", "predicted"),
    Knowledge("users' estimates, OLS exact", "user", "exact"),
    Knowledge("exact, OLS users' estimates", "exact", "user"),
)


def estimated(setup: Setup, known: Knowledge) -> Setup:
    """Return the setup with other knowledge; OLS alone can have a knowledge of its own."""
    what_if = known.what_if if setup.capacity.startswith("ols:") else AS_SCHEDULER
    return replace(setup, estimates=known.estimates, what_if=what_if)


def readings_of(subject: Subject) -> Iterator[tuple[str, tuple[Setup, ...]]]:
    """Return setups of weekly OLS that read the paper otherwise, and of two levels on the log's own machine."""
    ols = subject.setup(OLS)
    yield "OLS judges the queued jobs alone", (replace(ols, judged=QUEUED_JOBS),)
    if subject.log.span_s > FIRST_DAYS.stop * DAY_S:
        yield "weeks begin 1 to 6 d later", tuple(replace(ols, first_day=day) for day in FIRST_DAYS)
    by_rule = lower_level(subject.log, subject.size)
    if abs(by_rule - subject.low) > 1:
        yield f"two-level:{by_rule}, by the paper's rule, in place of OLS", (subject.setup(f"two-level:{by_rule}"),)
    size = subject.log.size
    if size != subject.size:
        low = f"two-level:{lower_level(subject.log, size)}"
        yield f"{size} processors, as in the log's header", (replace(ols, size=size),)
        yield f"{size} processors, {low} in place of OLS", (replace(ols, size=size, capacity=low),)
