"""The sessions of one virtual BMC: few, as in real ones, and given up when nobody speaks in them."""

import secrets
from dataclasses import dataclass, field

from sim_backend.virtual.rmcp.cipher_suites import CipherSuite
from sim_backend.virtual.rmcp.session import Session

MOST = 5
SILENCE_S = 60.0
"""A session in which nothing is heard for so long is closed (section 6.12.15)."""


@dataclass
class Sessions:
    """Open sessions by the BMC's number for them. A login that is not complete gives way when all places are taken."""

    by_id: dict[int, Session] = field(default_factory=dict)

    def open(self, console_id: int, suite: CipherSuite, now_s: float) -> Session | None:
        """Return a new session, None if there is no place for it."""
        self._close_silent(now_s)
        if len(self.by_id) >= MOST and not self._give_way():
            return None
        managed_id = secrets.randbelow(0xFFFFFFFE) + 1
        session = Session(managed_id, console_id, suite, now_s)
        self.by_id[managed_id] = session
        return session

    def find(self, managed_id: int, now_s: float) -> Session | None:
        """Return the open session of that number; None if there is none."""
        session = self.by_id.get(managed_id)
        if session is None or now_s - session.heard_s > SILENCE_S:
            self.by_id.pop(managed_id, None)
            return None
        return session

    def close(self, managed_id: int) -> bool:
        """Close a session; tells whether it was open."""
        return self.by_id.pop(managed_id, None) is not None

    def _close_silent(self, now_s: float) -> None:
        for session in list(self.by_id.values()):
            self.find(session.managed_id, now_s)

    def _give_way(self) -> bool:
        incomplete = [session for session in self.by_id.values() if session.keys is None]
        return bool(incomplete) and self.close(min(incomplete, key=lambda session: session.heard_s).managed_id)
