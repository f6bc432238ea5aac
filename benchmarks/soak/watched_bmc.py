"""A virtual BMC with faults on demand, whose sessions are counted."""

import time
import uuid

from offpeak.sim_backend.virtual.node import BmcFaults, VirtualBmc
from offpeak.sim_backend.virtual.rmcp.login import LoginDesk
from offpeak.sim_backend.virtual.rmcp.sessions import SILENCE_S

FAULTS = {
    "silent": BmcFaults(silent=True),
    "slow": BmcFaults(delay_s=0.1),
    "late": BmcFaults(delay_s=2.5),
    "garbage": BmcFaults(garbage=True),
    "exchanged": BmcFaults(guid=uuid.UUID("6b9f3c52-0c7e-4e0b-9d55-7b8f2f4a9d10")),
    "drops orders": BmcFaults(drops_commands=True),
}


class WatchedBmc:
    """The BMC behind a desk of logins."""

    def __init__(self, desk: LoginDesk) -> None:
        self._desk = desk
        self._well_since_s = 0.0

    @property
    def bmc(self) -> VirtualBmc:
        """The BMC itself."""
        return self._desk.bmc

    def fall_ill(self, fault: str) -> None:
        """Have that fault from now on, "" for none."""
        faults = FAULTS.get(fault, BmcFaults())
        if faults != self.bmc.faults:
            self._well_since_s = time.monotonic()
        self.bmc.faults = faults
        if fault == "forgets sessions":
            self._desk.sessions.by_id.clear()

    def sessions(self) -> tuple[int, int]:
        """Return how many sessions are open: those used since it was last ill, and those left from before or half-way.

        Unfinished logins are those whose user the BMC does not know yet, and which it drops by itself.
        """
        now_s = time.monotonic()
        known = [session for session in self._desk.sessions.by_id.values() if now_s - session.received_s <= SILENCE_S]
        used = sum(session.keys is not None and session.received_s >= self._well_since_s for session in known)
        return used, len(known) - used
