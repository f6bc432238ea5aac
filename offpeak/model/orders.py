"""The orders that pass the door, and the states of a node that orders to its hardware lead to.

Orders go to the hardware of a node, to the scheduler about a node or a queue, and to a site.

The members are the text that the ledger stores.
"""

from enum import StrEnum


class NodeOrder(StrEnum):
    """An order to the hardware of a node: power on, suspend (ACPI S3 or S1), shut down (S5), cut the power."""

    ON = "on"
    STANDBY = "standby"
    SOFT_OFF = "soft_off"
    HARD_OFF = "hard_off"


class NodeState(StrEnum):
    """The state of a node that its BMC, its pending order and the node itself show. UNKNOWN: it gets no order."""

    ON = "on"
    BOOTING = "booting"
    GOING_DOWN = "going down"
    STANDBY = "standby"
    OFF = "off"
    UNKNOWN = "unknown"


class PowerState(StrEnum):
    """The power of a node as its BMC or its scheduler reports it. A node whose power is UNKNOWN gets no order.

    A BMC reports ON, OFF or UNKNOWN; a scheduler also its own orders: it powers a node on when a job needs it, and with
    OFF_REQUESTED it powers the node off when its jobs have ended.
    """

    ON = "on"
    OFF_REQUESTED = "off requested"
    POWERING_OFF = "powering off"
    OFF = "off"
    ON_REQUESTED = "on requested"
    POWERING_ON = "powering on"
    UNKNOWN = "unknown"


class NodeChange(StrEnum):
    """A change to a node in the scheduler.

    CLOSE: no new job gets the node. WITHDRAW: also, no job wakes it while it sleeps. OPEN: undo either. POWER_DOWN:
    the node counts as powered down; the scheduler wakes it for a job. POWER_UP: the scheduler wakes the node now.
    RESUME: the scheduler tries a node again that counts as failed because it did not come up.
    """

    CLOSE = "close"
    WITHDRAW = "withdraw"
    OPEN = "open"
    POWER_DOWN = "power_down"
    POWER_UP = "power_up"
    RESUME = "resume"


class QueueChange(StrEnum):
    """A change to the jobs of a queue: their priorities, their earliest start, their comments, or all as before.

    CHECKPOINT: a running job gets the signal for its checkpoint. REQUEUE: it stops and waits again. CYCLE: the
    scheduler looks for jobs that can start.
    """

    RANK = "rank"
    DEFER = "defer"
    NOTIFY = "tell"
    RESTORE = "restore"
    CHECKPOINT = "checkpoint"
    REQUEUE = "requeue"
    CYCLE = "cycle"


class JobOrder(StrEnum):
    """An order of the broker to a site."""

    SUBMIT = "submit"
    CANCEL = "cancel"


class CapOrder(StrEnum):
    """A change of the power limit of a running node: a cap, and the limit from before."""

    CAP = "cap"
    UNCAP = "uncap"


class UnknownOrder(StrEnum):
    """An order in the ledger that this version does not know."""

    UNKNOWN = "unknown"


Order = NodeOrder | NodeChange | QueueChange | JobOrder | CapOrder | UnknownOrder

_ORDER_BY_TEXT: dict[str, Order] = {
    str(order): order for kind in (NodeOrder, NodeChange, QueueChange, JobOrder, CapOrder) for order in kind
}


def parse_order(text: str) -> Order:
    """Return the order of a text from the ledger."""
    return _ORDER_BY_TEXT.get(text, UnknownOrder.UNKNOWN)
