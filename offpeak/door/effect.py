"""What somebody wants done to a node or a queue, and what became of it: done, or refused and by which rule."""

from dataclasses import dataclass

US = "offpeak"
ADMIN = "admin "
SCHEDULER = "scheduler"
"""Who orders that a node wakes which the scheduler waits for."""

ON = "on"
TO_NODES = frozenset({ON, "standby", "soft_off", "hard_off"})
"""Orders that a node's hardware gets."""

GIVES = frozenset({ON, "open", "power_up", "resume", "restore"})
"""Orders that can only help jobs to run: they are given also where they cannot be recorded."""

DONE = "done"
"""The result of an order that the device has accepted."""

REFUSED = "refused"
"""The result of an intent whose order was never sent: it was refused after it had been written."""

TELLS = "tell"
"""The order that only puts words where users see them."""


@dataclass(frozen=True)
class Effect:
    """An order for a subject; `inputs` are the numbers and words behind the decision, by their names.

    The subject is a node's name, or "queue". `order` is one of TO_NODES, or what the scheduler is to be told: "close",
    "open", "power_down", "power_up" or "resume" of a node, "rank", "defer", "tell" or "restore" of the queue. `by` is
    "offpeak", "scheduler" or "admin NAME".
    """

    subject: str
    order: str
    by: str
    reason: str
    inputs: tuple[tuple[str, float | str], ...] = ()

    @property
    def takes_power_away(self) -> bool:
        """Whether it can end what runs there: all that is not known to be harmless counts as that."""
        return self.order not in GIVES and self.order != TELLS

    @property
    def is_to_node(self) -> bool:
        """Whether a node's hardware gets it, not the scheduler."""
        return self.order in TO_NODES

    @property
    def wakes_for_scheduler(self) -> bool:
        """Whether it wakes a node that the scheduler waits for."""
        return self.order == ON and self.by == SCHEDULER

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

    "refused": its order was not sent, a rule forbade it after the intent had been written.
    `trouble` is the class of the error that made it fail, such as "AccessRefused", or the rule that refused it.
    """

    result: str
    said: str
    trouble: str = ""
