"""What is to be done to something out there, and what became of it."""

from dataclasses import dataclass

TAKING_POWER = frozenset({"standby", "soft_off", "hard_off"})
"""The orders after which a node does not compute."""


@dataclass(frozen=True)
class Effect:
    """One order to one subject, a node's name; `inputs` are the numbers behind the decision, units in their names.

    `by` is "offpeak" or "admin NAME".
    """

    subject: str
    order: str
    by: str
    reason: str
    inputs: tuple[tuple[str, float | str], ...] = ()

    @property
    def takes_power_away(self) -> bool:
        """Whether the subject does not compute afterwards."""
        return self.order in TAKING_POWER


@dataclass(frozen=True)
class Refusal:
    """The rule that did not let an effect through, why, and what to do about it."""

    rule: str
    said: str
    hint: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of an effect: "done" (the device accepted it), "failed" or "interrupted"."""

    result: str
    said: str = ""
