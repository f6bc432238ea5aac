"""What systemd is told of a service (sd_notify(3)): one datagram to $NOTIFY_SOCKET, nothing where there is none."""

import os
import socket
import time
from collections.abc import Mapping

from offpeak.text import printable

STATUS_LETTERS = 1000
"""Room for a problem and its remedy."""
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


def notify(*states: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send the states together; returns whether somebody took them. Never raises, never waits."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # "@" stands for the NUL byte of an abstract socket.
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto("\n".join(states).encode(), name)
        except OSError:
            return False
    return True


def status(text: str) -> str:
    """Return the state that `systemctl status` shows as one line."""
    return f"STATUS={printable(text, enough=STATUS_LETTERS)}"


def reloading(monotonic_s: float | None = None) -> str:
    """Return the states that say: settings are read again since then; READY follows."""
    since_s = time.monotonic() if monotonic_s is None else monotonic_s
    return f"RELOADING=1\nMONOTONIC_USEC={since_s * 1e6:.0f}"


def watchdog_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return within how many seconds ALIVE is expected, None if nobody waits for it."""
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None
