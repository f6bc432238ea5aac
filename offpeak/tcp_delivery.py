"""Commands over TCP that a device gets soon, or never.

By itself the kernel repeats a lost packet for a quarter of an hour, and for minutes after its program has given the
command up or was killed. The device would follow it when nobody expects that any more.
"""

import socket
import struct

LONGEST_DELIVERY_S = 2.0
"""For so long the kernel repeats what was lost."""


def bound_delivery(connection: "socket.socket") -> None:
    """Let the kernel deliver what is sent from now on within this time, and nothing once the connection is closed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(LONGEST_DELIVERY_S * 1000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
