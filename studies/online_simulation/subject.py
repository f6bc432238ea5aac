"""A log with the machine that it is studied on, and the paper's log that it stands for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from offpeak.errors import BadInput
from plugin.capacity.policies import round_load_up
from studies.dynamic_pricing.arrange import offered_load
from studies.dynamic_pricing.logs import Log
from studies.online_simulation.experiment import Setup
from studies.online_simulation.paper import PAPER_LOGS, PaperLog


@dataclass(frozen=True)
class Subject:
    """A log on `size` processors; `low` is the lower of two levels."""

    log: Log
    size: int
    low: int
    paper: PaperLog | None = None

    @property
    def name(self) -> str:
        """The log's name."""
        return self.log.source.name

    @property
    def two_level(self) -> str:
        """The two-level policy of this log."""
        return f"two-level:{self.low}"

    def setup(self, capacity: str) -> Setup:
        """Return the paper's setup under a capacity policy."""
        return Setup(self.size, capacity)


def subjects_of(logs: Sequence[Log]) -> tuple[Subject, ...]:
    """Return the logs that stand for the paper's, of several the one with the most jobs; without any of them all logs.

    BadInput if a log is for a larger machine than the paper's.
    """
    found = []
    for paper in PAPER_LOGS:
        alike = [log for log in logs if log.source.name.startswith(paper.begins)]
        if alike:
            found.append(_of_paper(max(alike, key=lambda log: len(log.trace.jobs)), paper))
    return tuple(found) or tuple(_by_the_rule(log, log.size) for log in logs)


def _of_paper(log: Log, paper: PaperLog) -> Subject:
    widest = int(log.trace.jobs.size.max())
    if widest > paper.size:
        hint = "rename it, if it is the log of another machine"
        raise BadInput(f"{log.source.name}: a job has {widest} processors, the paper's machine {paper.size}", hint=hint)
    return Subject(log, paper.size, paper.low, paper)


def _by_the_rule(log: Log, size: int) -> Subject:
    return Subject(log, size, lower_level(log, size))


def lower_level(log: Log, size: int) -> int:
    """Return L by the paper's rule: the load, rounded up to the next twentieth, of all processors."""
    return math.ceil(round_load_up(offered_load(log.trace.jobs, size)) * size)
