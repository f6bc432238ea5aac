"""Sessions with BMCs, kept open and shared by all callers: a login costs as much as ten requests."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer, DeviceError, NoAnswer, OrderTooLate
from offpeak.machines.credentials import Secret
from offpeak.power.drivers.ipmi.bmc import (
    PRIVILEGES,
    BmcAddress,
    error_of_code,
    error_of_text,
    find_bmc,
    login_timeout_error,
    read_password,
    timeout_error,
)
from offpeak.power.drivers.ipmi.pyghmi_session import (
    SHA1,
    HeldSession,
    Job,
    Settle,
    Sha1Session,
    abandon_session,
    is_usable,
    pyghmi_thread,
    send_request,
)
from offpeak.power.drivers.ipmi.requests import IpmiRequest
from offpeak.power.drivers.logins import Logins

LOG = logging.getLogger("offpeak")

SESSION_OF_SUITE = {17: HeldSession, 3: Sha1Session}
"""The sessions by proposed cipher suite: 17 with 3 as a fallback, or 3 only."""


@dataclass
class _HeldSession:
    """The session with one BMC, None before the login. One caller at a time. `silent_s`: when the BMC last did not
    answer.
    """

    session: HeldSession | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    silent_s: float = -math.inf


class IpmiSessions:
    """All sessions of a program. If a BMC does not answer in time, its session is dropped and the next call logs in
    again.

    `timeout_s` bounds each step of a call: presence check, login, request. A dead BMC costs only the first one.
    """

    def __init__(self, logins: Logins, *, timeout_s: float, searches: asyncio.Semaphore) -> None:
        self._logins, self._timeout_s, self._searches = logins, timeout_s, searches
        self._held: dict[BmcAddress, _HeldSession] = defaultdict(_HeldSession)
        self._suites: dict[BmcAddress, int] = {}

    def cipher_suite(self, bmc: BmcAddress) -> int | None:
        """Return the cipher suite of the last login there, 17 or 3; None before the first one."""
        return self._suites.get(bmc)

    async def ask(self, bmc: BmcAddress, request: IpmiRequest) -> bytes:
        """Return the data of the answer. Raises DeviceError. The request is never sent twice."""
        return await self._ask(bmc, request, None)

    async def command(self, bmc: BmcAddress, request: IpmiRequest, guard: Guard) -> bytes:
        """Like `ask`, in the open session. Raises OrderTooLate if the session has ended or `guard` raises it."""
        return await self._ask(bmc, request, guard)

    async def _ask(self, bmc: BmcAddress, request: IpmiRequest, guard: Guard | None) -> bytes:
        held, clock = self._held[bmc], asyncio.get_running_loop().time
        queried_s = clock()
        async with held.turn:
            if held.silent_s >= queried_s:
                # The BMC was found silent while this call waited for its turn.
                raise timeout_error(bmc, self._timeout_s)
            try:
                return await self._answer(bmc, held, request, guard)
            except NoAnswer:
                held.silent_s = clock()
                raise

    async def close(self, bmc: BmcAddress) -> None:
        """Log out of that BMC."""
        held = self._held.pop(bmc, None)
        if held is None:
            return
        async with held.turn:
            if (session := held.session) is not None:
                with suppress(DeviceError):
                    await self._in_time(bmc, lambda settle: _log_out(session, settle))

    async def close_all(self) -> None:
        """Log out everywhere."""
        await asyncio.gather(*(self.close(bmc) for bmc in tuple(self._held)))

    async def _answer(self, bmc: BmcAddress, held: _HeldSession, request: IpmiRequest, guard: Guard | None) -> bytes:
        if guard is not None and (held.session is None or not is_usable(held.session)):
            raise OrderTooLate(f"{bmc}: its session has ended")
        if held.session is None or not is_usable(held.session):
            held.session = None
            address = await find_bmc(bmc, self._timeout_s, at_once=self._searches)
            secret = read_password(bmc)
            held.session = await self._logins.log_in(
                bmc.credential, bmc.host, lambda: self._log_in(bmc, address, secret), secret=secret
            )
        session = held.session

        def guarded(settle: Settle) -> bool:
            return send_request(session, request, settle, guard)

        try:
            answer = await self._in_time(bmc, guarded)
        except OrderTooLate:
            raise
        except BaseException:
            _forget_session(held)
            raise
        if "error" in answer:
            _forget_session(held)
            raise error_of_text(bmc, f"{request.name}: {answer['error']}")
        if answer["code"]:
            raise error_of_code(bmc, request.name, answer["code"])
        return bytes(answer["data"])

    async def _log_in(self, bmc: BmcAddress, address: str, secret: Secret) -> HeldSession:
        begun: list[HeldSession] = []
        try:
            await self._in_time(bmc, lambda settle: _begin_login(begun, bmc, address, secret, settle))
        except NoAnswer:
            pyghmi_thread().soon(lambda: _abandon_logins(begun))
            raise login_timeout_error(bmc, self._timeout_s) from None
        except BaseException:
            pyghmi_thread().soon(lambda: _abandon_logins(begun))
            raise
        # Log once a cipher suite that is weaker than the one in the inventory.
        suite = 3 if begun[0].integrityalgo == SHA1 else 17
        if suite < bmc.cipher_suite and self._suites.get(bmc) != suite:
            LOG.warning(
                "%s: the BMC refused cipher suite %d; its sessions use %d (SHA-1)", bmc, bmc.cipher_suite, suite
            )
        self._suites[bmc] = suite
        return begun[0]

    async def _in_time(self, bmc: BmcAddress, job: Job) -> Any:
        """Return what the job settles with, or raise its DeviceError; other errors become one."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await pyghmi_thread().call(job)
        except TimeoutError:
            raise timeout_error(bmc, self._timeout_s) from None
        except DeviceError:
            raise
        except Exception as problem:
            raise BadAnswer(f"{bmc}: pyghmi failed: {problem}", hint='try driver = "ipmitool"') from problem


def _begin_login(begun: list[HeldSession], bmc: BmcAddress, address: str, secret: Secret, settle: Settle) -> bool:
    """In pyghmi's thread: start a login, which settles with a DeviceError or None."""

    def ended(response: Mapping[str, Any]) -> None:
        settle(error_of_text(bmc, response["error"]) if "error" in response else None)

    session = SESSION_OF_SUITE[bmc.cipher_suite](
        bmc=address,
        # Both as bytes: with str, pyghmi never forgets an attempt, and the next login to this BMC waits for ever.
        userid=bmc.credential.user.encode(),
        password=secret.value,
        port=bmc.port,
        privlevel=PRIVILEGES[bmc.privilege],
        onlogon=ended,
    )
    begun.append(session)
    return True


def _log_out(session: HeldSession, settle: Settle) -> bool:
    abandon_session(session)
    settle(None)
    return True


def _forget_session(held: _HeldSession) -> None:
    if (session := held.session) is not None:
        held.session = None
        pyghmi_thread().soon(lambda: abandon_session(session))


def _abandon_logins(begun: list[HeldSession]) -> None:
    for session in begun:
        abandon_session(session)
