"""The SNMP engines of a program: one for all communities, and one for each SNMPv3 user and key."""

import asyncio
import random
from contextlib import suppress

from pysnmp import nextid
from pysnmp.carrier.asyncio.dgram import udp, udp6
from pysnmp.carrier.error import CarrierError
from pysnmp.hlapi.v3arch.asyncio import (
    USM_AUTH_HMAC96_MD5,
    USM_AUTH_HMAC96_SHA,
    USM_AUTH_HMAC128_SHA224,
    USM_AUTH_HMAC192_SHA256,
    USM_AUTH_HMAC256_SHA384,
    USM_AUTH_HMAC384_SHA512,
    USM_PRIV_CBC56_DES,
    USM_PRIV_CBC168_3DES,
    USM_PRIV_CFB128_AES,
    USM_PRIV_CFB192_AES,
    USM_PRIV_CFB192_AES_BLUMENTHAL,
    USM_PRIV_CFB256_AES,
    USM_PRIV_CFB256_AES_BLUMENTHAL,
    CommunityData,
    SnmpEngine,
    UsmUserData,
)

from offpeak.machines.credentials import Secret
from power.meters.snmp.login import Login

# pysnmp draws where an engine's numbers begin. Drawn from the generator that all modules share, they change the numbers
# of whoever seeded that one.
nextid.random = random.Random()

_AUTHENTICATION = {
    "MD5": USM_AUTH_HMAC96_MD5,
    "SHA": USM_AUTH_HMAC96_SHA,
    "SHA-224": USM_AUTH_HMAC128_SHA224,
    "SHA-256": USM_AUTH_HMAC192_SHA256,
    "SHA-384": USM_AUTH_HMAC256_SHA384,
    "SHA-512": USM_AUTH_HMAC384_SHA512,
}
_PRIVACY = {
    "DES": USM_PRIV_CBC56_DES,
    "3DES": USM_PRIV_CBC168_3DES,
    "AES": USM_PRIV_CFB128_AES,
    "AES-192": USM_PRIV_CFB192_AES_BLUMENTHAL,
    "AES-256": USM_PRIV_CFB256_AES_BLUMENTHAL,
    "AES-192-C": USM_PRIV_CFB192_AES,
    "AES-256-C": USM_PRIV_CFB256_AES,
}


ASKED_AT_ONCE = 100
"""So many packets are answered within a fraction of a second: more would wait for this program past their time-out."""
LISTED_AT_ONCE = 4
"""So many PDUs list their rows at a time; each answer is long, and takes this program some milliseconds to read. With
more, BMCs that are asked meanwhile are answered too late."""


class Engines:
    """Opens engines when they are needed and closes them when nobody uses them any more.

    pysnmp knows users by their name only: two keys of one name in one engine would overwrite each other.
    """

    def __init__(self) -> None:
        self._engines: dict[Login | None, SnmpEngine] = {}
        self._users: set[object] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def engine(self, login: Login, user: object) -> SnmpEngine:
        """Return the engine for a login, for `user` to use until it is released."""
        self._enter_loop()
        self._users.add(user)
        key = login if login.version == "3" else None
        if key not in self._engines:
            self._engines[key] = SnmpEngine()
        return self._engines[key]

    def asking(self) -> asyncio.Semaphore:
        """Return the turns of those who send a packet and wait for its answer."""
        self._enter_loop()
        return self._asking

    def listing(self) -> asyncio.Semaphore:
        """Return the turns of those who look up the rows of a PDU."""
        self._enter_loop()
        return self._listing

    def release(self, user: object) -> None:
        """Close all engines once nobody uses them."""
        self._users.discard(user)
        if not self._users:
            for engine in self._engines.values():
                _close(engine)
            self._engines = {}

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._engines, self._users, self._loop = {}, set(), loop
            self._asking, self._listing = asyncio.Semaphore(ASKED_AT_ONCE), asyncio.Semaphore(LISTED_AT_ONCE)


def _close(engine: SnmpEngine) -> None:
    """Hear nothing more, then close: pysnmp complains of an answer that is still on its way through it."""
    dispatcher = engine.transport_dispatcher
    for domain in (udp.DOMAIN_NAME, udp6.DOMAIN_NAME) if dispatcher else ():
        with suppress(CarrierError):
            if (transport := dispatcher.get_transport(domain).transport) is not None:
                transport.close()
    asyncio.get_running_loop().call_soon(engine.close_dispatcher)


def said_to(login: Login) -> CommunityData | UsmUserData:
    """Return the login in pysnmp's words."""
    if login.community:
        return CommunityData(_text(login.community), mpModel=0 if login.version == "1" else 1)
    return UsmUserData(
        login.user,
        authKey=_text(login.key) if login.key else None,
        privKey=_text(login.privacy_key) if login.privacy_key else None,
        authProtocol=_AUTHENTICATION[login.authentication] if login.key else None,
        privProtocol=_PRIVACY[login.privacy] if login.privacy_key else None,
    )


def _text(secret: Secret) -> str:
    # pysnmp turns it into the same bytes again; any file's bytes are text in this encoding.
    return secret.value.decode("latin-1")
