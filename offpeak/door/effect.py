"""An order for a node or a queue and its outcome, an admin's hold on a node, and the mode of the door.

An effect is done, or refused by a rule. The mode lets pass no orders, those of admins, or all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from offpeak.model.orders import CapOrder, NodeChange, NodeOrder, Order, QueueChange

AGENT = "offpeak"
ADMIN = "admin "
SCHEDULER = "scheduler"
"""The orderer of a wake that the scheduler waits for."""

HARMLESS: frozenset[Order] = frozenset(
    {
        NodeOrder.ON,
        NodeChange.OPEN,
        NodeChange.POWER_UP,
        NodeChange.RESUME,
        QueueChange.RESTORE,
        QueueChange.NOTIFY,
        QueueChange.CYCLE,
        CapOrder.CAP,
        CapOrder.UNCAP,
    }
)
"""Orders that cannot end a job or keep it from starting. The door sends them even if the ledger cannot be written."""

MODE_RULE = "mode"
"""The rule that refuses what the mode does not let through."""

DONE = "done"
"""The result of an order that the device has accepted."""

REFUSED = "refused"
"""The result of an intent that a rule refused after it was written; its order was never sent."""


@dataclass(frozen=True)
class Effect:
    """An order for a subject; `inputs` are the named numbers and texts that the decision rests on.

    The subject is the name of a node, a node set for caps, "queue of PARTITIONS" or "site NAME". `by` is "offpeak",
    "scheduler" or "admin NAME".
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
        """Whether the order wakes a node that the scheduler waits for."""
        return self.order is NodeOrder.ON and self.by == SCHEDULER

    @property
    def by_admin(self) -> bool:
        """Whether an admin gave the order."""
        return self.by.startswith(ADMIN)

    @property
    def way(self) -> str:
        """The way to send the order: the input "way", which is "bmc" or "wol"; "" if there is no such input."""
        return str(dict(self.inputs).get("way", ""))


@dataclass(frozen=True)
class Refusal:
    """The rule that refused, its message and a hint; `error_kind` is the class of the error, if an error refused."""

    rule: str
    message: str
    hint: str = ""
    error_kind: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an act.

    "done": the device accepted it. "failed": it did not. "interrupted": not known. "refused": a rule refused the order
    after the intent was written, and the order was not sent. `error_kind` is the kind of the error, such as
    "AccessRefused", or the rule that refused.
    """

    result: str
    message: str
    error_kind: str = ""


@dataclass(frozen=True)
class Hold:
    """A hold on a node: only its owner may switch the node until then; without `until_unix_s` it has no end."""

    owner: str
    reason: str
    until_unix_s: float | None = None

    def lasts(self, at_unix_s: float) -> bool:
        """Whether the hold is in force at that time."""
        return self.until_unix_s is None or at_unix_s < self.until_unix_s


class Mode(StrEnum):
    """SHADOW: record only. ADVISE: carry out admins' orders and comments for users. ACTIVE: carry out everything."""

    SHADOW = "shadow"
    ADVISE = "advise"
    ACTIVE = "active"


ModeOf = Callable[[Effect], Mode]
"""Returns the mode for an effect: each partition may have its own."""


WAKEABLE: frozenset[Order] = frozenset({NodeChange.POWER_DOWN, NodeChange.OPEN, NodeChange.RESUME})
"""Changes after which the scheduler wakes a node that is off for a job."""


def refused_by_mode(mode: Mode, effect: Effect, *, put_to_sleep: bool) -> Refusal | None:
    """Return the mode's refusal, None if it lets the effect through.

    In every mode the door wakes a node for the scheduler that a door has `put_to_sleep`, and lets the scheduler know
    that it may request the node. So no mode leaves a node behind that a job cannot wake. No mode keeps a cap either:
    only caps of the ledger are removed.
    """
    if effect.order is CapOrder.UNCAP:
        return None
    if put_to_sleep and (effect.wakes_for_scheduler or effect.order in WAKEABLE):
        return None
    if mode is Mode.ACTIVE or (mode is Mode.ADVISE and (effect.by_admin or effect.order is QueueChange.NOTIFY)):
        return None
    message = f"{effect.subject}: {effect.order} is only recorded in mode {mode}"
    if effect.by_admin:
        hint = 'set mode = "advise" below [agent], and what an admin orders is done'
    else:
        hint = 'set mode = "active" below [agent] once its records have convinced you'
    return Refusal(MODE_RULE, message, hint)
