"""The state that all drivers and meters of a program share: logins, sessions, time-out and clock."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from offpeak.power.drivers.logins import Logins

if TYPE_CHECKING:
    from offpeak.power.drivers.ipmi.sessions import IpmiSessions
    from offpeak.power.meters.snmp.engines import SnmpEngines

MAX_SEARCHES = 256
"""The number of devices that are searched at the same time. Each takes a file descriptor; pyghmi cannot use those above
1024.
"""
MAX_FORKS = 16
"""The number of programs that run at the same time; more are no faster on two processors."""


class NodeService(Protocol):
    """A service that switches or caps nodes."""

    async def close(self) -> None:
        """Log out. The service may be used again afterwards."""


@dataclass(frozen=True)
class Transport:
    """Shared by a whole program and its event loop.

    `timeout_s` bounds each request to a device; `clock` returns Unix time [s].
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
        from offpeak.power.drivers.ipmi.sessions import IpmiSessions

        return IpmiSessions(self.logins, timeout_s=self.timeout_s, searches=self.searches)

    @cached_property
    def engines(self) -> "SnmpEngines":
        """SNMP engines that query PDUs."""
        from offpeak.power.meters.snmp.engines import SnmpEngines

        return SnmpEngines()

    @cached_property
    def services(self) -> "dict[object, NodeService]":
        """Services that are closed with the transport, by what finds them again."""
        return {}

    async def close(self) -> None:
        """Log out of all sessions. The transport may be used again afterwards."""
        if "sessions" in vars(self):
            await self.sessions.close_all()
        for service in self.services.values():
            await service.close()
