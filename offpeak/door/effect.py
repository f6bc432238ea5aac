"""What somebody wants done to a node, and what became of it: done, or refused and by which rule."""

from dataclasses import dataclass

US = "offpeak"
ADMIN = "admin "


@dataclass(frozen=True)
class Effect:
    """An order for a subject, a node's name; `inputs` are the numbers and words behind the decision, by their names.

    `order` is "on", "standby", "soft_off" or "hard_off"; `by` is "offpeak" or "admin NAME".
    """

    subject: str
    order: str
    by: str
    reason: str
    inputs: tuple[tuple[str, float | str], ...] = ()

    @property
    def takes_power_away(self) -> bool:
        """Whether it can end what runs there: all that is not known to be harmless counts as that."""
        return self.order != "on"

    @property
    def by_admin(self) -> bool:
        """Whether an admin ordered it by hand."""
        return self.by.startswith(ADMIN)

    @property
    def way(self) -> str:
        """How it is to be given, where there are several ways: the input "way", "bmc" or "wol"; "" if there is none."""
        return str(dict(self.inputs).get("way", ""))


@dataclass(frozen=True)
class Refusal:
    """The rule that refused, what it said, what to do about it; `trouble` is the class of the error if it was one."""

    rule: str
    said: str
    hint: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of an act: "done", accepted by the device; "failed"; "interrupted", nobody knows.

    `trouble` is the class of the error that made it fail, such as "AccessRefused".
    """

    result: str
    said: str
    trouble: str = ""
