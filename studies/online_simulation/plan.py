"""What has to be run: the setups of all tables and figures, and their experiments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from studies.online_simulation.experiment import ALWAYS_ON, DAILY, OLS, SERVER, Experiment, Replays, Setup, experiments
from studies.online_simulation.readings import KNOWLEDGE, estimated, readings_of
from studies.online_simulation.subject import Subject

PERIODS = ("1h", "1d", "7d", "14d", "28d")
ON_SERVERS = ("7d", "1d")


def planned(subjects: Sequence[Subject], replays: Replays) -> tuple[Experiment, ...]:
    """Return the experiments, each once, those of a log next to each other."""
    return tuple(
        experiment
        for subject in subjects
        for setup in dict.fromkeys(setups_of(subject))
        for experiment in experiments(subject.name, setup, replays)
    )


def setups_of(subject: Subject) -> Iterator[Setup]:
    """Return the setups in which a log is replayed, some of them more than once."""
    yield from policies_of(subject).values()
    yield from (subject.setup(f"ols:{period}") for period in PERIODS)
    yield from on_servers(subject)
    for known in KNOWLEDGE:
        yield from (estimated(setup, known) for setup in policies_of(subject).values())
        yield estimated(subject.setup(DAILY), known)
    yield from (setup for _, setups in readings_of(subject) for setup in setups)


def policies_of(subject: Subject) -> dict[str, Setup]:
    """Return the paper's three policies by name."""
    return {
        "all processors": subject.setup(ALWAYS_ON),
        "two-level": subject.setup(subject.two_level),
        "OLS": subject.setup(OLS),
    }


def on_servers(subject: Subject) -> tuple[Setup, ...]:
    """Return the setups that are compared on nodes that take their time."""
    capacities = (subject.two_level, *(f"ols:{period}" for period in ON_SERVERS))
    return tuple(replace(subject.setup(capacity), nodes=SERVER) for capacity in capacities)
