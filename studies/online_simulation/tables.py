"""Tables of the paper's figures 2 and 8, and of what sleeping takes on real nodes."""

from collections.abc import Sequence

from offpeak.model.local_time import WEEK_S
from studies.dynamic_pricing.arrange import offered_load
from studies.online_simulation.answers import (
    Answers,
    cycles,
    idle_saved_pct,
    inactive_pct,
    slowdown,
    utilization_pct,
    violations_pct,
)
from studies.online_simulation.experiment import ALWAYS_ON, Setup
from studies.online_simulation.plan import PERIODS, on_servers, policies_of
from studies.online_simulation.subject import Subject
from studies.report import Cell, Table

RANGES = "In brackets the lowest and the highest of the replays."
MEASURES = (slowdown, violations_pct, utilization_pct, inactive_pct, cycles)
MEASURED = ("slowdown", "jobs above 200 [%]", "utilization [%]", "inactive [%]", "cycles")


def logs_table(subjects: Sequence[Subject]) -> Table:
    """Return a row a log: what it is like, and what the paper has."""
    return Table(
        "logs",
        "The logs",
        "Load: the share of all processors that the jobs ask for. L: the lower of the two levels.",
        ("log", "jobs", "the paper's", "weeks", "processors", "load [%]", "L"),
        tuple(_log_row(subject) for subject in subjects),
    )


def _log_row(subject: Subject) -> tuple[Cell, ...]:
    jobs = subject.log.trace.jobs
    theirs = f"{subject.paper.jobs:,}" if subject.paper else None
    load = f"{100 * offered_load(jobs, subject.size):.1f}"
    weeks = f"{subject.log.span_s / WEEK_S:.0f}"
    return (subject.name, f"{len(jobs):,}", theirs, weeks, f"{subject.size:,}", load, f"{subject.low:,}")


def policies_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return the paper's figure 2 in numbers."""
    return Table(
        "policies",
        "All processors, two levels, OLS decided weekly (the paper's figure 2)",
        f"Utilization is that of active processors; cycles are sleeps a node and year. {RANGES}",
        ("log", "policy", *MEASURED),
        tuple(
            (subject.name, name, *measured(answers, subject, setup))
            for subject in subjects
            for name, setup in policies_of(subject).items()
        ),
    )


def periods_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return the paper's figure 8 in numbers."""
    return Table(
        "periods",
        "OLS decided more and less often (the paper's figure 8)",
        f"{RANGES} There are a quarter as many of hourly decisions.",
        ("log", "period", *MEASURED),
        tuple(
            (subject.name, period, *measured(answers, subject, subject.setup(f"ols:{period}")))
            for subject in subjects
            for period in PERIODS
        ),
    )


def measured(answers: Answers, subject: Subject, setup: Setup) -> tuple[Cell, ...]:
    """Return the measures of a setup in the order of MEASURED."""
    return tuple(answers.of(subject, setup, measure) for measure in MEASURES)


def servers_table(answers: Answers, subjects: Sequence[Subject]) -> Table:
    """Return what changes with transitions that take their time, and what sleep then saves."""
    return Table(
        "servers",
        "Transitions that take no time, and those of the bundled class `server`",
        "Times: the slowdown over that with no transitions, in the same replays. Saved: of the energy that the idle "
        f"processors would draw, were they awake. Of all: the slowdown over that of all processors. {RANGES}",
        ("log", "policy", "slowdown", "times", "of all", "inactive [%]", "saved, no transitions [%]", "saved [%]"),
        tuple(
            _server_row(answers, subject, at_once, server)
            for subject in subjects
            for at_once, server in ((subject.setup(each.capacity), each) for each in on_servers(subject))
        ),
    )


def _server_row(answers: Answers, subject: Subject, at_once: Setup, server: Setup) -> tuple[Cell, ...]:
    return (
        subject.name,
        server.capacity,
        answers.of(subject, server, slowdown),
        answers.over(subject, server, at_once, slowdown),
        answers.over(subject, server, subject.setup(ALWAYS_ON), slowdown),
        answers.of(subject, server, inactive_pct),
        answers.of(subject, at_once, idle_saved_pct),
        answers.of(subject, server, idle_saved_pct),
    )
