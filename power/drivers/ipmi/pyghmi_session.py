"""pyghmi's session as it can be held by a program that must not wait: nothing blocks, nobody logs in behind its back.

What differs, and why:
- Set Session Privilege Level, the last step of a login, is sent and awaited by callback: pyghmi waits there for half a
  minute if the BMC has just died, and all other BMCs with it.
- A lost answer does not make it log in again by itself: every login goes through `Logins`, or accounts get locked.
- Each session has a number of its own. pyghmi begins with the same one, so the late answer to an earlier attempt passed
  for one to this attempt, and its hash for a wrong password.
- A login that is given up or begun anew is closed at the BMC. pyghmi just forgets it, and a BMC that is slow has opened
  the session by then: a few of these, and nobody can log in there for a minute.
- Cipher suite 3 (SHA-1) can be asked for; by itself pyghmi proposes 17 (SHA-256), then 3 if that is refused.
"""

import random
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from pyghmi.ipmi.private import session as pyghmi_session
from pyghmi.ipmi.private.session import MAX_IDLE, Session
from pyghmi.ipmi.private.util import _monotonic_time, get_ipmi_error

from power.drivers.ipmi.request import Request

CLOSE_SESSION = Request("Close Session", 0x06, 0x3C)
RAKP_3, NO_RESOURCES = 0x14, 0x01
SHA1 = 1
LARGEST_NUMBER = 0xFFFF_0000

# pyghmi draws its time-outs in the thread of the sessions. Drawn from the generator that all modules share, they change
# the numbers of whoever seeded that one.
pyghmi_session.random = random.Random()


class HeldSession(Session):  # type: ignore[misc]
    """A login to one BMC. Only the thread that made it may touch it."""

    sessioncontext: str | None

    def _initsession(self) -> None:
        super()._initsession()
        self.localsid = 1 + secrets.randbelow(LARGEST_NUMBER)

    def _relog(self) -> None:
        self.end_login()
        super()._relog()

    def end_login(self) -> None:
        """Have the BMC forget a login that goes no further; without waiting.

        Up to RAKP message 2 it ends with a message 3 that says so (IPMI v2.0, table 13-13). After message 3 the BMC has
        opened the session, or does when it comes to it: then that is closed.
        """
        reached, number = self.sessioncontext, b""
        if reached in ("EXPECTINGRAKP2", "EXPECTINGRAKP4"):
            self.sessioncontext, self.lastpayload = "FAILED", None
            number = self.pendingsessionid.to_bytes(4, "little")
        if reached == "EXPECTINGRAKP2":
            self.send_payload(bytes([self.rmcptag, NO_RESOURCES, 0, 0]) + number, RAKP_3, retry=False)
        if reached == "EXPECTINGRAKP4":
            self.sessionid, self.integrityalgo, self.confalgo = self.pendingsessionid, self.attemptedhash, "aes"
            self.sequencenumber = 1
            self._send_ipmi_net_payload(CLOSE_SESSION.netfn, CLOSE_SESSION.command, number, retry=False)

    def _get_session_challenge(self) -> None:
        # Where pyghmi turns to IPMI 1.5, with a login that anybody on the network could break.
        self.onlogon({"error": "IPMI 2.0 unavailable"})

    def _req_priv_level(self) -> None:
        self.logged, self.logoutexpiry = 1, None
        self.logontries, self.maxtimeout = 0, 4
        self.raw_command(netfn=0x06, command=0x3B, data=[self.privlevel], callback=self._got_privilege)

    def _got_privilege(self, response: dict[str, Any]) -> None:
        release(self)
        self.logging = False
        if trouble := get_ipmi_error(response, suffix=", when it was asked for the privilege level"):
            self.onlogon({"error": trouble})
            return
        Session.keepalive_sessions[self] = {"ipmisession": self, "timeout": _monotonic_time() + MAX_IDLE - 5}
        self.onlogon({"success": True})


class Sha1Session(HeldSession):
    """The same with cipher suite 3 from the start, for BMCs that fall silent when they are offered 17."""

    def _initsession(self) -> None:
        super()._initsession()
        self.attemptedhash = SHA1


def release(session: Session) -> None:
    """Say that a request has ended: pyghmi leaves this to whoever takes answers by callback."""
    session.incommand = False
    while session.evq:
        session.evq.popleft().set()


def usable(session: Session) -> bool:
    """Tell whether the session is logged in, as far as is known."""
    return bool(session.logged) and not session.broken


def send(
    session: Session, request: Request, settle: Callable[[object], None], guard: Callable[[], None] | None
) -> bool:
    """Send a request, which settles with pyghmi's answer; False if another is under way, such as a sign of life.

    `guard` is called directly before; what it raises is raised, and nothing is sent.
    """
    if not usable(session):
        settle({"error": "session no longer connected"})
        return True
    if session._isincommand():
        return False

    def ended(response: Mapping[str, Any]) -> None:
        release(session)
        settle(response)

    if guard is not None:
        guard()
    session.raw_command(netfn=request.netfn, command=request.command, data=request.data, callback=ended)
    return True


def give_up(session: HeldSession) -> None:
    """Log out without waiting for anything, and forget the session: pyghmi makes a new one the next time."""
    if session.broken:
        return
    release(session)
    session.lastpayload = None
    session.pendingpayloads.clear()
    # What has come, but was not looked at yet, would go on with the login.
    session.pktqueue.clear()
    session.end_login()
    session._mark_broken()


def work(timeout_s: float) -> None:
    """Take what came from BMCs, send again what was lost, keep sessions alive; for at most that long."""
    if Session.socketpool:
        Session.wait_for_rsp(timeout_s)


def any_alive() -> bool:
    """Tell whether there are sessions that must be kept alive."""
    return bool(Session.keepalive_sessions or Session.waiting_sessions)
