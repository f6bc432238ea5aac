"""What a plan of the day wants of the queue: in which order jobs start, and which of them not before when."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PLAN = "plan"
"""The policy by which the hook carries a plan out."""
SAME_S = 60
"""A begin that moves by less is left."""


@dataclass(frozen=True)
class Bound:
    """A job must not start before `begin_s` [Unix s], and why; whether its owner lets it wait or not."""

    begin_s: int
    why: str


@dataclass(frozen=True)
class Planned:
    """By job: `start_s` is its planned start [Unix s], `bound` are those that a cap on power keeps back.

    `not_held` are jobs whose owners would let them wait for a cheap hour, and that come to start in none.
    """

    start_s: Mapping[str, int] = field(default_factory=dict)
    bound: Mapping[str, Bound] = field(default_factory=dict)
    not_held: frozenset[str] = frozenset()
