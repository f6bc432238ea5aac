"""The power states of a node, as the small integers that arrays and compiled kernels hold.

A node is active, failed, or on its way into, in, or on its way out of one of the sleep depths.
"""

from enum import IntEnum

from offpeak.model.orders import NodeOrder, NodeState


class SleepDepth(IntEnum):
    """A sleep depth, shallow to deep: DVFS governor, ACPI S1 or S3, ACPI S5. Arrays and kernels hold its number.

    No order leads into powersave: the node lowers its clock by itself.
    """

    POWERSAVE = 0
    STANDBY = 1
    OFF = 2

    @property
    def order(self) -> NodeOrder | None:
        """The order that leads a node into this depth."""
        return (None, NodeOrder.STANDBY, NodeOrder.SOFT_OFF)[self]

    @property
    def state(self) -> NodeState | None:
        """The state of a node in this depth, None for one that counts as on."""
        return (None, NodeState.STANDBY, NodeState.OFF)[self]


DEPTHS = tuple(depth.name.lower() for depth in SleepDepth)
"""The names of the sleep depths by their number, as settings and files write them."""

ORDER_OF_DEPTH: dict[int, NodeOrder] = {depth: depth.order for depth in SleepDepth if depth.order is not None}
DEPTH_OF_STATE = {depth.state: depth for depth in SleepDepth if depth.state is not None}

# Kernels take plain integers.
POWERSAVE, STANDBY, OFF = map(int, SleepDepth)
ACTIVE, FAILED = 0, 1

STATES = 2 + 3 * len(DEPTHS)


def going_down(depth: int) -> int:
    """Return the state of a node that is entering `depth`."""
    return 2 + 3 * depth


def asleep(depth: int) -> int:
    """Return the state of a node that is in `depth`."""
    return 3 + 3 * depth


def coming_up(depth: int) -> int:
    """Return the state of a node that is leaving `depth` to become active."""
    return 4 + 3 * depth
