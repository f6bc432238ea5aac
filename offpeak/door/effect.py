"""An order for a node or a queue and its outcome, an admin's hold on a node, and the mode of the door.

An effect is done, or refused by a rule. The mode opens the door to no order, to the orders of admins, or to the
agent's too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from offpeak.model.orders import NodeChange, NodeOrder, Order, QueueChange

US = "offpeak"
ADMIN = "admin "
SCHEDULER = "scheduler"
"""Who orders that a node wakes which the scheduler waits for."""

HARMLESS: frozenset[Order] = frozenset(
    {
        NodeOrder.ON,
        NodeChange.OPEN,
        NodeChange.POWER_UP,
        NodeChange.RESUME,
        QueueChange.RESTORE,
        QueueChange.TELL,
    }
)
"""Orders that cannot end a job or keep it from starting. The door sends them even if the ledger cannot be written."""

DONE = "done"
"""The result of an order that the device has accepted."""

REFUSED = "refused"
"""The result of an intent whose order was never sent: it was refused after it had been written."""


@dataclass(frozen=True)
class Effect:
    """An order for a subject; `inputs` are the named numbers and texts that the decision rests on.

    The subject is the name of a node, "queue of PARTITIONS" or "site NAME". `by` is "offpeak", "scheduler" or
    "admin NAME".
    """

    subject: str
    order: Order
    by: str
    reason: str
    inputs: tuple[tuple[str, float | str], ...] = ()

    @property
    def takes_power_away(self) -> bool:
        """Whether the order may end a job: every order that is not known to be harmless may."""
        return self.order not in HARMLESS

    @property
    def is_to_node(self) -> bool:
        """Whether the order goes to the hardware of a node."""
        return isinstance(self.order, NodeOrder)

    @property
    def wakes_for_scheduler(self) -> bool:
        """Whether it wakes a node that the scheduler waits for."""
        return self.order is NodeOrder.ON and self.by == SCHEDULER

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
    """The rule that refused, its message and a hint; `trouble` is the class of the error, if an error refused."""

    rule: str
    message: str
    hint: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of an act: "done", accepted by the device; "failed"; "interrupted", nobody knows.

    "refused": its order was not sent, a rule forbade it after the intent had been written.
    `trouble` is the class of the error that made it fail, such as "AccessRefused", or the rule that refused it.
    """

    result: str
    message: str
    trouble: str = ""


@dataclass(frozen=True)
class Hold:
    """Nobody but the owner has the node switched until then; without `until_unix_s` it has no end."""

    owner: str
    reason: str
    until_unix_s: float | None = None

    def lasts(self, at_unix_s: float) -> bool:
        """Whether it holds at that time."""
        return self.until_unix_s is None or at_unix_s < self.until_unix_s


class Mode(StrEnum):
    """SHADOW: nothing is done, all is recorded. ADVISE: jobs' owners are told, and what an admin orders is done.

    ACTIVE: all is done.
    """

    SHADOW = "shadow"
    ADVISE = "advise"
    ACTIVE = "active"


ModeOf = Callable[[Effect], Mode]
"""The mode that holds for an effect: partitions may have their own."""


WAKEABLE: frozenset[Order] = frozenset({NodeChange.POWER_DOWN, NodeChange.OPEN, NodeChange.RESUME})
"""Changes after which the scheduler wakes a node that is off for a job."""


def refused_by_mode(mode: Mode, effect: Effect, *, put_to_sleep: bool) -> Refusal | None:
    """Return the mode's refusal, None if it lets the effect through.

    A node that was `put_to_sleep` by an order through a door is woken for the scheduler in every mode, and the
    scheduler is told in every mode that it may ask for it: no mode leaves a node behind that a job cannot wake.
    """
    if put_to_sleep and (effect.wakes_for_scheduler or effect.order in WAKEABLE):
        return None
    if mode is Mode.ACTIVE or (mode is Mode.ADVISE and (effect.by_admin or effect.order is QueueChange.TELL)):
        return None
    message = f"{effect.subject}: {effect.order} is only recorded in mode {mode}"
    if effect.by_admin:
        hint = 'set mode = "advise" below [agent], and what an admin orders is done'
    else:
        hint = 'set mode = "active" below [agent] once its records have convinced you'
    return Refusal("mode", message, hint)
