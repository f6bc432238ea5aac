"""Commands of DCMI v1.5: what the node draws (sections 6.1 and 6.6.1)."""

import struct

from sim_backend.virtual.rmcp.call import INVALID_COMMAND, WRONG_FIELD, Call, Refused

DCMI = 0xDC
SYSTEM_STATISTICS = 0x01
MEASURING = 0x40
VERSION = b"\x01\x05\x02"
"""DCMI 1.5, second revision of the parameters."""

CAPABILITIES = {
    1: b"\x00\x01\x00",  # power management; no further ways in
    2: b"\x00\x00\x00\x00\x00",
    3: b"\x00\x00",
    4: b"\xff\xff\xff",
    5: b"\x01\x41",  # one rolling average, over a minute
}
"""Table 6-3, by parameter."""


def capabilities(call: Call) -> bytes:
    """Get DCMI Capabilities Info, table 6-2."""
    parameter = _body(call, 1)
    if parameter not in CAPABILITIES:
        raise Refused(WRONG_FIELD)
    return bytes([DCMI]) + VERSION + CAPABILITIES[parameter]


def power_reading(call: Call) -> bytes:
    """Get Power Reading, table 6-16: now, lowest, highest and mean [W] since the node was made."""
    if _body(call, 1) != SYSTEM_STATISTICS:
        raise Refused(WRONG_FIELD)
    live, at_s = call.bmc.node, call.bmc.node.clock()
    node = live.now()
    now_w = node.power_w
    mean_w = live.energy_j / at_s if at_s > 0 else now_w
    watts = (round(each) for each in (now_w, min(node.least_w, now_w), max(node.most_w, now_w), mean_w))
    period_ms = min(round(at_s * 1000), 0xFFFFFFFF)
    return bytes([DCMI]) + struct.pack("<4HIIB", *watts, round(at_s) & 0xFFFFFFFF, period_ms, MEASURING)


def _body(call: Call, index: int) -> int:
    if call.byte(0) != DCMI:
        raise Refused(INVALID_COMMAND)
    return call.byte(index)
