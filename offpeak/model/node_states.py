"""The power states of a node, as the small integers that arrays and compiled kernels hold.

A node is active, failed, or on its way into, in, or on its way out of one of the sleep depths.
"""

ACTIVE, FAILED = 0, 1
POWERSAVE, STANDBY, OFF = 0, 1, 2

DEPTHS = ("powersave", "standby", "off")
"""The names of the sleep depths by their number, shallow to deep: DVFS governor, ACPI S1 or S3, ACPI S5."""

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
