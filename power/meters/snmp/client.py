"""The SNMP client of one device: it reads known OIDs in few packets, and walks whole columns.

It translates pysnmp's values and errors.
"""

import asyncio
import math
import socket
from dataclasses import dataclass
from typing import Any, cast

from pyasn1.type.univ import ObjectIdentifier
from pysnmp.error import PySnmpError
from pysnmp.hlapi.v3arch.asyncio import (
    ContextData,
    Udp6TransportTarget,
    UdpTransportTarget,
    bulk_cmd,
    get_cmd,
    next_cmd,
)
from pysnmp.proto import errind
from pysnmp.proto.rfc1902 import Counter32, Counter64, Gauge32, Integer32, OctetString, TimeTicks, Unsigned32

from offpeak.errors import AccessRefused, BadAnswer, DeviceError, NoAnswer
from offpeak.machines.inventory import Pdu
from offpeak.power.meters.snmp.engines import NumericOid, SnmpEngines, SnmpLogin, auth_data_of
from offpeak.power.meters.snmp.fast_session import FastSession, NotFast, Silent, is_fast

_NUMBER_TYPES = (Integer32, Unsigned32, Counter32, Counter64, Gauge32, TimeTicks)

TOO_BIG = 1
_NO_SUCH_NAME = 2
_REFUSALS = (
    *(errind.UnknownUserName, errind.WrongDigest, errind.AuthenticationFailure, errind.AuthenticationError),
    *(errind.DecryptionError, errind.EncryptionError, errind.UnsupportedSecurityLevel),
    *(errind.UnsupportedAuthProtocol, errind.UnsupportedPrivProtocol),
)
# RFC 3416, section 3, PDU.error-status.
_STATUS_NAMES = {1: "tooBig", 2: "noSuchName", 3: "badValue", 5: "genErr", 6: "noAccess", 16: "authorizationError"}

OIDS_PER_PACKET = 20
ROWS_PER_BULK = 30
ROWS_OF_FIRST_BULK = 8
"""Most columns have few rows, and rows after the end of a column are read in vain."""
MAX_COLUMN_ROWS = 5_000

_CHECK_V3_HINT = "check version, user and keys of its credential; SNMPv3 keys have at least 8 characters"


@dataclass(frozen=True)
class NoSnmpValue:
    """No value at an OID; `gone` if the agent has no such object at all."""

    why: str
    gone: bool = False


NO_SUCH_OID = NoSnmpValue("the PDU has no such OID", gone=True)

SnmpValue = int | str | NoSnmpValue
"""Integers, counters, gauges and ticks are numbers; strings are texts, OIDs are texts of digits and dots."""

SnmpValues = dict[str, SnmpValue]
"""Values by OID, without a leading dot."""


def parse_snmp_number(answer: SnmpValue) -> float | None:
    """Return a number, which may be written as text ("12.5"), else None."""
    if isinstance(answer, int):
        return float(answer)
    if isinstance(answer, str):
        try:
            number = float(answer)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


def values_below(answers: SnmpValues, column: str) -> SnmpValues:
    """Return the answers of a column by row, the rest of their OIDs."""
    start = f"{column}."
    return {oid.removeprefix(start): answer for oid, answer in answers.items() if oid.startswith(start)}


def decode_value(value: Any) -> SnmpValue:
    """Return a value as a number or text; Null, noSuchObject and endOfMibView as NO_SUCH_OID."""
    if isinstance(value, _NUMBER_TYPES):
        return int(value)
    if isinstance(value, OctetString):
        return _decode_plain(bytes(value))
    if isinstance(value, ObjectIdentifier):
        return str(value)
    return NO_SUCH_OID


def _decode_plain(value: int | bytes | str) -> SnmpValue:
    return value.decode("utf-8", errors="replace").rstrip("\0") if isinstance(value, bytes) else value


def is_no_such_name(status: int) -> bool:
    """Tell whether an error status means that the OID does not exist; v1 only, v2c and v3 return this as a value."""
    return status == _NO_SUCH_NAME


def status_name(status: int) -> str:
    """Return the standard's name of an error status."""
    return _STATUS_NAMES.get(status, f"error {status}")


def error_of_indication(error: Any, device: str, host: str, login: SnmpLogin) -> DeviceError:
    """Return the error for pysnmp's error indication."""
    if isinstance(error, errind.RequestTimedOut):
        return NoAnswer(f"{device}: {host} does not answer to SNMP", hint=_silence_hint(login))
    if isinstance(error, _REFUSALS):
        hint = f"check user {login.user}, its keys and protocols on the PDU; `snmpget -v3 -u {login.user}` tries them"
        return AccessRefused(f"{device}: {host} refused SNMPv3 user {login.user}: {error}", hint=hint)
    return BadAnswer(f"{device}: {host}: {error}", hint="check that the PDU supports this version of SNMP")


def _silence_hint(login: SnmpLogin) -> str:
    if login.version == "3":
        return "some PDUs ignore a wrong privacy key; check it, address, port, firewall, and the PDU's SNMPv3"
    return "a PDU does not answer a wrong community; check it, the address, port, firewall and allowed managers"


@dataclass(frozen=True)
class SnmpPatience:
    """The time-out of one packet, and how often it is resent."""

    timeout_s: float = 1.0
    retries: int = 2


DEFAULT_PATIENCE = SnmpPatience()


class SnmpClient:
    """The SNMP client of one device. `user` is the object for which the engine is kept open.

    A device that is silent gets one packet at a time from then on, until it answers.
    """

    def __init__(self, pdu: Pdu, *, engines: SnmpEngines, user: object, patience: SnmpPatience) -> None:
        self._device, self._host, self._port = pdu.name, pdu.host, pdu.port
        self._engines, self._user, self._patience = engines, user, patience
        self._target: UdpTransportTarget | Udp6TransportTarget | None = None
        self._fast: tuple[SnmpLogin, FastSession] | None = None
        self._is_known_to_answer = False
        self._retries_saved = 0
        """The number of packets that a request is sent less often than the patience says."""

    async def get(self, login: SnmpLogin, oids: tuple[str, ...]) -> SnmpValues:
        """Return the value at each OID. Raises NoAnswer, AccessRefused or BadAnswer if there is no answer at all."""
        answers: SnmpValues = {}
        if self._is_known_to_answer and is_fast(login):
            try:
                return await self._get_fast(login, oids)
            except NotFast as problem:
                self._fast = None
                self._retries_saved = int(isinstance(problem, Silent))
        self._is_known_to_answer = False
        for first in range(0, len(oids), OIDS_PER_PACKET):
            answers |= await self._get(login, oids[first : first + OIDS_PER_PACKET])
        self._is_known_to_answer = True
        return answers

    async def _get_fast(self, login: SnmpLogin, oids: tuple[str, ...]) -> SnmpValues:
        """Return the value at each OID by gufo-snmp. Raises NotFast if pysnmp must read them."""
        if self._fast is None or self._fast[0] != login:
            _, address = await self._address()
            self._fast = login, FastSession(login, address, self._port)
        found = dict[str, int | bytes | str]()
        async with self._engines.asking():
            for first in range(0, len(oids), OIDS_PER_PACKET):
                some = oids[first : first + OIDS_PER_PACKET]
                found |= await self._fast[1].get(some, self._patience.timeout_s)
        return {oid: _decode_plain(found[oid]) for oid in oids}

    async def walk(self, login: SnmpLogin, column: str) -> tuple[SnmpValues, str]:
        """Return all values below an OID, and the reason if the walk ended too early. Raises like `get`."""
        answers: SnmpValues = {}
        oid = column
        while len(answers) < MAX_COLUMN_ROWS:
            page, error = await self._page(login, oid, ROWS_PER_BULK if answers else ROWS_OF_FIRST_BULK)
            fresh = {at: answer for at, answer in page.items() if at.startswith(f"{column}.") and at not in answers}
            answers |= fresh
            # An agent that returns the same OIDs again would be walked for ever.
            if len(fresh) < len(page) or not fresh:
                return answers, "" if page else error
            oid = list(page)[-1]
        return answers, f"more than {MAX_COLUMN_ROWS} rows below {column}"

    async def has(self, login: SnmpLogin, column: str) -> bool:
        """Tell whether there is any value below an OID. Raises like `get`."""
        status, _, found = await self._ask(login, next_cmd, (column,))
        return not status and any(str(name).startswith(f"{column}.") for name, _ in found)

    async def _page(self, login: SnmpLogin, oid: str, count: int) -> tuple[SnmpValues, str]:
        """Return the values after an OID: one with v1 or if the agent's next column is broken, else up to `count`."""
        status, found = 0, cast(Any, ())
        if login.version != "1":
            status, _, found = await self._ask(login, bulk_cmd, (oid,), 0, count)
        if status or login.version == "1":
            status, _, found = await self._ask(login, next_cmd, (oid,))
        if status:
            return {}, "" if is_no_such_name(status) else f"{status_name(status)} after {oid}"
        pairs = [(str(name), decode_value(value)) for name, value in found]
        return {name: answer for name, answer in pairs if not (isinstance(answer, NoSnmpValue) and answer.gone)}, ""

    async def _get(self, login: SnmpLogin, oids: tuple[str, ...]) -> SnmpValues:
        """Request one packet of OIDs; after an error all but the failing OID again, as v1 requires."""
        if not oids:
            return {}
        status, index, found = await self._ask(login, get_cmd, oids)
        if not status:
            reply = {str(name): decode_value(value) for name, value in found}
            return {oid: reply.get(oid, NO_SUCH_OID) for oid in oids}
        if status == TOO_BIG and len(oids) > 1:
            half = len(oids) // 2
            return await self._get(login, oids[:half]) | await self._get(login, oids[half:])
        failed = index - 1 if 0 < index <= len(oids) else 0
        rest = oids[:failed] + oids[failed + 1 :]
        answer: SnmpValue = (
            NO_SUCH_OID if is_no_such_name(status) else NoSnmpValue(f"the PDU reports {status_name(status)}")
        )
        return {oids[failed]: answer} | await self._get(login, rest)

    async def _ask(self, login: SnmpLogin, command: Any, oids: tuple[str, ...], *numbers: int) -> tuple[int, int, Any]:
        """Return error status, error index and values. Raises DeviceError if there is no answer."""
        wanted = [NumericOid(oid) for oid in oids]
        if self._target is None:
            family, address = await self._address()
            kind = Udp6TransportTarget if family == socket.AF_INET6 else UdpTransportTarget
            self._target = await kind.create((address, self._port))
        self._target.timeout = self._patience.timeout_s
        self._target.retries = max(0, self._patience.retries - self._retries_saved)
        to, auth = self._target, auth_data_of(login)
        try:
            async with self._engines.asking():
                engine = self._engines.engine(login, self._user)
                answer = await command(engine, auth, to, ContextData(), *numbers, *wanted, lookupMib=False)
        except PySnmpError as problem:
            raise BadAnswer(f"{self._device}: SNMP failed: {type(problem).__name__}", hint=_CHECK_V3_HINT) from None
        error, status, index, found = answer
        self._retries_saved = self._patience.retries if isinstance(error, errind.RequestTimedOut) else 0
        if error:
            # The host name may have a new address.
            self._target = None
            raise error_of_indication(error, self._device, self._host, login)
        return int(status), int(index), found

    async def _address(self) -> tuple[int, str]:
        """Resolve the host name in a thread, within the time-out of packets."""
        try:
            # wait_for of Python 3.11 loses a cancellation that comes with the address, and the read would go on.
            async with asyncio.timeout(self._patience.timeout_s * (self._patience.retries + 1)):
                found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        except (OSError, TimeoutError):
            hint = f"`getent hosts {self._host}` must print its address"
            raise NoAnswer(f"{self._device}: no address for {self._host}", hint=hint) from None
        return found[0][0], str(found[0][4][0])
