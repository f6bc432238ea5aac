"""Commands of the network function Chassis: what the power is, and switching it (chapter 28)."""

from collections.abc import Callable

from sim_backend.virtual.live_node import LiveNode
from sim_backend.virtual.rmcp.call import WRONG_FIELD, WRONG_STATE, Call, Refused

HARD_OFF, ON, CYCLE, RESET, SOFT_OFF = 0, 1, 2, 3, 5
"""Chassis Control, section 28.3."""

ON_BY_COMMAND = 0x10
"""Bit of the last power event: it was switched on by a command."""

POLICIES, KEEP_POLICY = (0, 1, 2), 3


def status(call: Call) -> bytes:
    """Get Chassis Status, section 28.2."""
    bmc = call.bmc
    power = bmc.restore_policy << 5 | bmc.node.powered
    # The light can blink, and does so or not.
    return bytes([power, bmc.last_event, 0x40 | bmc.identify << 4])


def control(call: Call) -> bytes:
    """Chassis Control, section 28.3: accepted at once, done as fast as the node can."""
    order, bmc = call.byte(0) & 0x0F, call.bmc
    if order not in ORDERS:
        raise Refused(WRONG_FIELD)
    bmc.orders.append(order)
    if order in (CYCLE, RESET) and not bmc.node.powered:
        raise Refused(WRONG_STATE)
    if not bmc.faults.drops_commands:
        ORDERS[order](bmc.node)
        bmc.last_event = ON_BY_COMMAND if order in (ON, CYCLE) else 0
    return b""


def identify(call: Call) -> bytes:
    """Chassis Identify, section 28.5: without data for a while, 0 seconds end it, the second byte forces it on."""
    forced = len(call.data) > 1 and call.data[1] & 1
    call.bmc.identify = 2 if forced else int(not call.data or call.data[0] > 0)
    return b""


def set_restore_policy(call: Call) -> bytes:
    """Set Power Restore Policy, section 28.8: returns which there are; 3 changes nothing."""
    policy = call.byte(0) & 0x07
    if policy in POLICIES:
        call.bmc.restore_policy = policy
    elif policy != KEEP_POLICY:
        raise Refused(WRONG_FIELD)
    return b"\x07"


ORDERS: dict[int, Callable[[LiveNode], None]] = {
    HARD_OFF: LiveNode.hard_off,
    ON: LiveNode.on,
    CYCLE: LiveNode.reset,
    RESET: LiveNode.reset,
    SOFT_OFF: LiveNode.soft_off,
}
