"""What must be run: the logs with their machines, the setups of all tables and figures, and their experiments.

The paper does not say whether run times are known, which jobs OLS judges and when weeks start: each is varied once.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from offpeak.errors import BadInput
from offpeak.model.constants import DAY_S
from offpeak.plugin.capacity.policies import round_load_up
from offpeak_studies.harness import Replays
from offpeak_studies.logs import StudyLog, offered_load
from offpeak_studies.online_simulation.run import (
    ALWAYS_ON,
    AS_SCHEDULER,
    DAILY,
    HOURLY,
    OLS,
    PAPER_LOGS,
    QUEUED_JOBS,
    SERVER,
    OnlineExperiment,
    OnlinePaperLog,
    OnlineSetup,
)


@dataclass(frozen=True)
class OnlineSubject:
    """A log on `size` processors; `low` is the lower one of two levels."""

    log: StudyLog
    size: int
    low: int
    paper: OnlinePaperLog | None = None

    @property
    def name(self) -> str:
        """The log's name."""
        return self.log.source.name

    @property
    def two_level(self) -> str:
        """The two-level policy of this log."""
        return f"two-level:{self.low}"

    def setup(self, capacity: str) -> OnlineSetup:
        """Return the paper's setup under a capacity policy."""
        return OnlineSetup(self.size, capacity)


def subjects_of(logs: Sequence[StudyLog]) -> tuple[OnlineSubject, ...]:
    """Return the counterparts of the paper's logs, of several the one with the most jobs; all logs if there are none.

    Raises BadInput if a log is for a larger machine than the paper's.
    """
    found = []
    for paper in PAPER_LOGS:
        alike = [log for log in logs if log.source.name.startswith(paper.begins)]
        if alike:
            found.append(_of_paper(max(alike, key=lambda log: len(log.trace.jobs)), paper))
    return tuple(found) or tuple(OnlineSubject(log, log.size, lower_level(log, log.size)) for log in logs)


def _of_paper(log: StudyLog, paper: OnlinePaperLog) -> OnlineSubject:
    widest = int(log.trace.jobs.size.max())
    if widest > paper.size:
        hint = "rename it, if it is the log of another machine"
        raise BadInput(f"{log.source.name}: a job has {widest} processors, the paper's machine {paper.size}", hint=hint)
    return OnlineSubject(log, paper.size, paper.low, paper)


def lower_level(log: StudyLog, size: int) -> int:
    """Return L by the paper's rule: the load, rounded up to the next twentieth, of all processors."""
    return math.ceil(round_load_up(offered_load(log.trace.jobs, size)) * size)


FIRST_DAYS = range(8, 14)
"""The second week's days but its first: KTH-SP2 begins with a single job and four empty days."""


@dataclass(frozen=True)
class Knowledge:
    """The run times that the scheduler and OLS know, and the name of the case in tables."""

    name: str
    estimates: str
    what_if: str = AS_SCHEDULER


KNOWLEDGE = (
    Knowledge("exact", "exact"),
    Knowledge("users' estimates", "user"),
    Knowledge("predicted", "predicted"),
    Knowledge("users' estimates, OLS exact", "user", "exact"),
    Knowledge("exact, OLS users' estimates", "exact", "user"),
    Knowledge("users' estimates, OLS as the agent", "user", "as the agent"),
)


def estimated(setup: OnlineSetup, known: Knowledge) -> OnlineSetup:
    """Return the setup with that knowledge; only OLS can know other run times than the scheduler."""
    what_if = known.what_if if setup.capacity.startswith("ols:") else AS_SCHEDULER
    return replace(setup, estimates=known.estimates, what_if=what_if)


def readings_of(subject: OnlineSubject) -> Iterator[tuple[str, tuple[OnlineSetup, ...]]]:
    """Return setups of weekly OLS by other readings of the paper, and of two levels on the log's own machine."""
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


PERIODS = ("1h", "1d", "7d", "14d", "28d")
ON_SERVERS = ("7d", "1d")


def replays_of(setup: OnlineSetup, replays: Replays) -> range:
    """Return the numbers of a setup's replays: a quarter of them if they take long or many setups are alike."""
    takes_long = setup.capacity == HOURLY or (setup.capacity == DAILY and setup != OnlineSetup(setup.size, DAILY))
    return range(-(-replays.count // 4) if takes_long or setup.first_day else replays.count)


def experiments(log: str, setup: OnlineSetup, replays: Replays) -> list[OnlineExperiment]:
    """Return the experiments of a setup, one for each replay."""
    return [OnlineExperiment(log, replays.seed, replay, setup) for replay in replays_of(setup, replays)]


def planned(subjects: Sequence[OnlineSubject], replays: Replays) -> tuple[OnlineExperiment, ...]:
    """Return the experiments, each once, those of a log next to each other."""
    return tuple(
        experiment
        for subject in subjects
        for setup in dict.fromkeys(setups_of(subject))
        for experiment in experiments(subject.name, setup, replays)
    )


def setups_of(subject: OnlineSubject) -> Iterator[OnlineSetup]:
    """Return the setups in which a log is replayed, some of them more than once."""
    yield from policies_of(subject).values()
    yield from (subject.setup(f"ols:{period}") for period in PERIODS)
    yield from on_servers(subject)
    for known in KNOWLEDGE:
        yield from (estimated(setup, known) for setup in policies_of(subject).values())
        yield estimated(subject.setup(DAILY), known)
    yield from (setup for _, setups in readings_of(subject) for setup in setups)


def policies_of(subject: OnlineSubject) -> dict[str, OnlineSetup]:
    """Return the paper's three policies by name."""
    return {
        "all processors": subject.setup(ALWAYS_ON),
        "two-level": subject.setup(subject.two_level),
        "OLS": subject.setup(OLS),
    }


def on_servers(subject: OnlineSubject) -> tuple[OnlineSetup, ...]:
    """Return the setups that are compared on nodes whose transitions take time."""
    capacities = (subject.two_level, *(f"ols:{period}" for period in ON_SERVERS))
    return tuple(replace(subject.setup(capacity), nodes=SERVER) for capacity in capacities)
