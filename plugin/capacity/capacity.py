"""A capacity policy as a value: its name, its rules, and what it decides from outside, if anything."""

from dataclasses import dataclass
from typing import Protocol

from offpeak.model.snapshot import Snapshot
from plugin.capacity.rules import NEVER, CapacityRules, Course


@dataclass(frozen=True)
class Targets:
    """How many nodes are to be awake, how many of them idle, and why so many in words and numbers."""

    awake: int
    reserve: int = 0
    why: str = ""


class Decide(Protocol):
    """Decides on the targets from all that is known at an instant."""

    def __call__(self, snapshot: Snapshot, /) -> Targets:
        """Return the targets that hold from now on."""


@dataclass(frozen=True)
class Capacity:
    """A policy; where it has a `decide`, that is asked every `rules.period_s`."""

    name: str
    rules: CapacityRules
    course: Course
    decide: Decide | None = None

    @property
    def keeps_all_awake(self) -> bool:
        """Whether no node can ever sleep."""
        return bool((self.course.after_s == NEVER).all())
