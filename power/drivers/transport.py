"""The state that all drivers and meters of a program share: logins, sessions, time-out and clock."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from power.drivers.logins import Logins

if TYPE_CHECKING:
    from power.drivers.ipmi.sessions import IpmiSessions
    from power.meters.snmp.engines import SnmpEngines

MAX_SEARCHES = 256
"""Devices that are looked for at the same time; each takes a file, and pyghmi cannot use those beyond 1024."""
MAX_FORKS = 16
"""Programs that run at the same time; more are no faster on two processors."""


@dataclass(frozen=True)
class Transport:
    """One for a whole program and its event loop.

    `timeout_s` bounds each thing that a device is asked; `clock` tells Unix time [s].
    """

    logins: Logins = field(default_factory=Logins)
    timeout_s: float = 5.0
    clock: Callable[[], float] = time.time
    searches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_SEARCHES))
    forks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_FORKS))

    @cached_property
    def sessions(self) -> "IpmiSessions":
        """IPMI sessions with BMCs."""
        # pyghmi takes a third of a second to import, and starts a thread when it is used.
        from power.drivers.ipmi.sessions import IpmiSessions

        return IpmiSessions(self.logins, timeout_s=self.timeout_s, searches=self.searches)

    @cached_property
    def engines(self) -> "SnmpEngines":
        """SNMP engines that ask PDUs."""
        from power.meters.snmp.engines import SnmpEngines

        return SnmpEngines()

    async def close(self) -> None:
        """Log out wherever a session is held. The wire may be used again afterwards."""
        if "sessions" in vars(self):
            await self.sessions.close_all()
