"""One SNMP agent: numbers at known OIDs in few packets, and whole columns."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any, cast

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    ContextData,
    Udp6TransportTarget,
    UdpTransportTarget,
    bulk_cmd,
    get_cmd,
    next_cmd,
)

from offpeak.errors import BadAnswer, NoAnswer
from offpeak.machines.inventory import Pdu
from power.meters.snmp.answers import NO_SUCH, Answer, Answers, Nothing
from power.meters.snmp.asked import Asked
from power.meters.snmp.complaints import TOO_BIG, complaint, is_missing, name_of
from power.meters.snmp.engines import Engines, said_to
from power.meters.snmp.login import Login
from power.meters.snmp.values import answer_of

PER_PACKET = 20
PER_BULK = 30
FIRST_BULK = 8
"""Most columns have a few rows, and what follows a column is read for nothing."""
LONGEST_COLUMN = 5_000


@dataclass(frozen=True)
class Patience:
    """How long one packet is waited for, and how often it is sent again."""

    timeout_s: float = 1.0
    retries: int = 2


USUAL = Patience()


class Agent:
    """The agent of one device, spoken to with one login. `user` is on whose behalf its engine is kept."""

    def __init__(self, pdu: Pdu, *, engines: Engines, user: object, patience: Patience) -> None:
        self._device, self._host, self._port = pdu.name, pdu.host, pdu.port
        self._engines, self._user, self._patience = engines, user, patience
        self._target: UdpTransportTarget | Udp6TransportTarget | None = None

    async def get(self, login: Login, oids: tuple[str, ...]) -> Answers:
        """Return what stands at each OID; NoAnswer, AccessRefused or BadAnswer if there is no answer at all."""
        answers: Answers = {}
        for first in range(0, len(oids), PER_PACKET):
            answers |= await self._get(login, oids[first : first + PER_PACKET])
        return answers

    async def walk(self, login: Login, column: str) -> tuple[Answers, str]:
        """Return everything below an OID, and what ended it too early, if anything; errors as `get`."""
        answers: Answers = {}
        oid = column
        while len(answers) < LONGEST_COLUMN:
            page, trouble = await self._page(login, oid, PER_BULK if answers else FIRST_BULK)
            fresh = {at: answer for at, answer in page.items() if at.startswith(f"{column}.") and at not in answers}
            answers |= fresh
            # An agent that gives the same again would be walked for ever.
            if len(fresh) < len(page) or not fresh:
                return answers, "" if page else trouble
            oid = list(page)[-1]
        return answers, f"more than {LONGEST_COLUMN} rows below {column}"

    async def has(self, login: Login, column: str) -> bool:
        """Tell whether there is anything below an OID; errors as `get`."""
        status, _, found = await self._ask(login, next_cmd, (column,))
        return not status and any(str(name).startswith(f"{column}.") for name, _ in found)

    async def _page(self, login: Login, oid: str, count: int) -> tuple[Answers, str]:
        """Return what comes after an OID; v1 gives one at once, and so does an agent whose next column is broken."""
        status, found = 0, cast(Any, ())
        if login.version != "1":
            status, _, found = await self._ask(login, bulk_cmd, (oid,), 0, count)
        if status or login.version == "1":
            status, _, found = await self._ask(login, next_cmd, (oid,))
        if status:
            return {}, "" if is_missing(status) else f"{name_of(status)} after {oid}"
        pairs = [(str(name), answer_of(value)) for name, value in found]
        return {name: answer for name, answer in pairs if not (isinstance(answer, Nothing) and answer.gone)}, ""

    async def _get(self, login: Login, oids: tuple[str, ...]) -> Answers:
        """Ask for one packet of OIDs. One that fails is left out and the others are asked again, as v1 wants it."""
        if not oids:
            return {}
        status, index, found = await self._ask(login, get_cmd, oids)
        if not status:
            said = {str(name): answer_of(value) for name, value in found}
            return {oid: said.get(oid, NO_SUCH) for oid in oids}
        if status == TOO_BIG and len(oids) > 1:
            half = len(oids) // 2
            return await self._get(login, oids[:half]) | await self._get(login, oids[half:])
        failed = index - 1 if 0 < index <= len(oids) else 0
        rest = oids[:failed] + oids[failed + 1 :]
        answer: Answer = NO_SUCH if is_missing(status) else Nothing(f"the PDU says {name_of(status)}")
        return {oids[failed]: answer} | await self._get(login, rest)

    async def _ask(self, login: Login, command: Any, oids: tuple[str, ...], *numbers: int) -> tuple[int, int, Any]:
        """Return error status, its index and what was found; DeviceError for what is no answer."""
        wanted = [Asked(oid) for oid in oids]
        to, said = await self._resolved(), said_to(login)
        try:
            async with self._engines.asking():
                engine = self._engines.engine(login, self._user)
                answer = await command(engine, said, to, ContextData(), *numbers, *wanted, lookupMib=False)
        except PySnmpError as problem:
            raise BadAnswer(f"{self._device}: SNMP failed: {type(problem).__name__}", hint=_LOOK_V3) from None
        trouble, status, index, found = answer
        if trouble:
            # Silence may be that of an address that its name no longer has.
            self._target = None
            raise complaint(trouble, self._device, self._host, login)
        return int(status), int(index), found

    async def _resolved(self) -> UdpTransportTarget | Udp6TransportTarget:
        if self._target is None:
            family, address = await self._address()
            kind = Udp6TransportTarget if family == socket.AF_INET6 else UdpTransportTarget
            patience = self._patience
            self._target = await kind.create(
                (address, self._port), timeout=patience.timeout_s, retries=patience.retries
            )
        return self._target

    async def _address(self) -> tuple[int, str]:
        """Look the name up in a thread, no longer than packets are waited for."""
        lookup = asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        limit_s = self._patience.timeout_s * (self._patience.retries + 1)
        try:
            found = await asyncio.wait_for(lookup, limit_s)
        except (OSError, TimeoutError):
            hint = f"`getent hosts {self._host}` has to print its address"
            raise NoAnswer(f"{self._device}: no address for {self._host}", hint=hint) from None
        return found[0][0], str(found[0][4][0])


_LOOK_V3 = "check version, user and keys of its credential; SNMPv3 keys have at least 8 characters"
