"""pyghmi adapted to a program that must not block: its session, and the one thread in which it runs.

What differs from pyghmi's session, and why:
- Set Session Privilege Level, the last step of a login, uses a callback: pyghmi blocks there for half a minute if the
  BMC has just died, and with it all other BMCs.
- It does not log in again by itself after a lost answer: every login goes through `Logins`, or accounts get locked.
- Each session has its own number. pyghmi always starts with the same number, so it took the late answer to an earlier
  attempt for an answer to this one, and its hash for a wrong password.
- A login that is given up or restarted is closed at the BMC. pyghmi only forgets it, but a slow BMC has opened the
  session by then: after a few of these, the BMC accepts no login for a minute.
- An order is sent once: pyghmi repeats every request whose answer is late, by its own timer, when the order may no
  longer hold. Its guard is called directly before its packet leaves.
- Cipher suite 3 (SHA-1) can be requested; pyghmi itself proposes 17 (SHA-256), then 3 if the BMC refuses that.

pyghmi keeps its state in its modules and stalls when it is called from several threads, so a process has one such
thread. The thread lives until the process ends; with no session open it sleeps.
"""

import asyncio
import random
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from pyghmi.ipmi.private import session as pyghmi_session
from pyghmi.ipmi.private.session import MAX_IDLE, Session
from pyghmi.ipmi.private.util import _monotonic_time, get_ipmi_error

from offpeak.power.drivers.ipmi.requests import IpmiRequest

CLOSE_SESSION = IpmiRequest("Close Session", 0x06, 0x3C)
RAKP_3, NO_RESOURCES = 0x14, 0x01
SHA1 = 1
LARGEST_NUMBER = 0xFFFF_0000

# pyghmi draws random time-outs in its thread. A generator of its own keeps the shared, seeded one reproducible.
pyghmi_session.random = random.Random()

TURN_S = 0.02
"""While a call is pending: a wake-up that pyghmi loses, or a new call, waits at most this long."""
IDLE_TURN_S = 0.5
"""While sessions are only kept alive."""

Settle = Callable[[object], None]
"""Takes the result of a call, or the error; only the first one counts."""
Job = Callable[[Settle], bool]
"""Starts a call that settles later. False if it cannot start yet and must be tried again."""


class HeldSession(Session):  # type: ignore[misc]
    """A login to one BMC. Only the thread that made it may touch it."""

    sessioncontext: str | None
    guard: Callable[[], object] | None = None
    """Called once, directly before the next packet; what it raises keeps that packet back."""

    def _xmit_packet(self, *options: Any, **named: Any) -> None:
        guard, self.guard = self.guard, None
        if guard is not None:
            guard()
        super()._xmit_packet(*options, **named)

    def _initsession(self) -> None:
        super()._initsession()
        self.localsid = 1 + secrets.randbelow(LARGEST_NUMBER)

    def _relog(self) -> None:
        self.end_login()
        super()._relog()

    def end_login(self) -> None:
        """Make the BMC forget an unfinished login, without waiting.

        Before RAKP message 3, a message 3 with an error status ends the login (IPMI v2.0, table 13-13). After message 3
        the BMC has opened the session or will do so: then Close Session is sent.
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
        # pyghmi would fall back to IPMI 1.5 here, whose login anybody on the network can break.
        self.onlogon({"error": "IPMI 2.0 unavailable"})

    def _req_priv_level(self) -> None:
        self.logged, self.logoutexpiry = 1, None
        self.logontries, self.maxtimeout = 0, 4
        self.raw_command(netfn=0x06, command=0x3B, data=[self.privlevel], callback=self._got_privilege)

    def _got_privilege(self, response: dict[str, Any]) -> None:
        release_session(self)
        self.logging = False
        if error := get_ipmi_error(response, suffix=", when the privilege level was set"):
            self.onlogon({"error": error})
            return
        Session.keepalive_sessions[self] = {"ipmisession": self, "timeout": _monotonic_time() + MAX_IDLE - 5}
        self.onlogon({"success": True})


class Sha1Session(HeldSession):
    """Proposes cipher suite 3 only, for BMCs that do not answer when 17 is proposed."""

    def _initsession(self) -> None:
        super()._initsession()
        self.attemptedhash = SHA1


def release_session(session: Session) -> None:
    """Mark the request as ended; pyghmi leaves this to the caller if answers come by callback."""
    session.incommand = False
    while session.evq:
        session.evq.popleft().set()


def is_usable(session: Session) -> bool:
    """Tell whether the session is logged in, as far as known."""
    return bool(session.logged) and not session.broken


def send_request(
    session: HeldSession, request: IpmiRequest, settle: Callable[[object], None], guard: Callable[[], object] | None
) -> bool:
    """Send a request that settles with pyghmi's answer; return False while another one, such as a keep-alive, is
    pending.

    A request with a guard is sent once, any other one is repeated if its answer is late. If the guard raises, nothing
    is sent.
    """
    if not is_usable(session):
        settle({"error": "session no longer connected"})
        return True
    if session._isincommand() or session.lastpayload:
        return False

    def ended(response: Mapping[str, Any]) -> None:
        release_session(session)
        settle(response)

    session.guard = guard
    try:
        session.raw_command(
            netfn=request.netfn, command=request.command, data=request.data, callback=ended, retry=guard is None
        )
    except BaseException:
        session.guard = None
        release_session(session)
        raise
    return True


def abandon_session(session: HeldSession) -> None:
    """Log out without waiting, and forget the session: pyghmi creates a new one the next time."""
    if session.broken:
        return
    release_session(session)
    session.lastpayload = None
    session.pendingpayloads.clear()
    # A packet that is still in the queue would continue the login.
    session.pktqueue.clear()
    session.end_login()
    session._mark_broken()


class PyghmiThread:
    """Runs jobs one after the other, and pyghmi's own work between them."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        self._unanswered: set[object] = set()
        threading.Thread(target=self._run, name="pyghmi", daemon=True).start()

    async def call(self, job: Job) -> Any:
        """Return what the job settles with, or raise it."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()

        def settle(value: object) -> None:
            self._unanswered.discard(result)
            # The event loop may have been closed before the answer arrived.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_put, result, value)

        self._jobs.put(lambda: result.cancelled() or self._begun(job, result, settle))
        try:
            return await result
        except asyncio.CancelledError:
            self.soon(lambda: self._unanswered.discard(result))
            raise

    def soon(self, job: Callable[[], None]) -> None:
        """Run the job without waiting for it or its result."""

        def done() -> bool:
            with suppress(Exception):
                job()
            return True

        self._jobs.put(done)

    def _begun(self, job: Job, result: object, settle: Settle) -> bool:
        self._unanswered.add(result)
        try:
            begun = job(settle)
        except Exception as problem:
            settle(problem)
            return True
        if not begun:
            self._unanswered.discard(result)
        return begun

    def _run(self) -> None:
        postponed: list[Callable[[], bool]] = []
        while True:
            busy = bool(self._unanswered or postponed)
            is_kept_alive = Session.keepalive_sessions or Session.waiting_sessions
            wait_s = 0.0 if busy else IDLE_TURN_S if is_kept_alive else None
            postponed = [job for job in (*postponed, *self._arrived(wait_s)) if not job()]
            # A malformed packet of one BMC must not end the thread for all. Its caller runs into the time-out.
            with suppress(Exception):
                # Receive packets, resend lost requests and keep sessions alive, for at most that long.
                timeout_s = TURN_S if self._unanswered or postponed else 0.0
                if Session.socketpool:
                    Session.wait_for_rsp(timeout_s)

    def _arrived(self, wait_s: float | None) -> Iterator[Callable[[], bool]]:
        with suppress(Empty):
            yield self._jobs.get(block=wait_s != 0.0, timeout=wait_s)
            while True:
                yield self._jobs.get_nowait()


@cache
def pyghmi_thread() -> PyghmiThread:
    """Return the thread of this process; the first call starts it."""
    return PyghmiThread()


def _put(result: asyncio.Future[object], value: object) -> None:
    if result.done():
        return
    if isinstance(value, Exception):
        result.set_exception(value)
    else:
        result.set_result(value)
