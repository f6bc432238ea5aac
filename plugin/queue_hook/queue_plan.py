"""What the queue hook wants done, ready for the scheduler's port, with its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from offpeak.ledger.rows import DecisionRecord, JobMark


@dataclass(frozen=True)
class QueuePlan:
    """What is to be written, by job: `rank` for Scheduler.rank, `begin_s` for defer, `tell` for tell.

    `remember` are the marks of what is written, which must be on the disk before it is. `seen` are marks of jobs that
    are not written: an admin's hand, a job that was passed; without them it is found again, or forgotten, at a restart.
    `forget` say nothing any more. `decisions` tell of each job that is moved, delayed, let go or left alone, and why.
    """

    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    remember: tuple[JobMark, ...] = ()
    seen: tuple[JobMark, ...] = ()
    forget: tuple[JobMark, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether the scheduler is told nothing."""
        return not (self.rank or self.begin_s or self.tell)
