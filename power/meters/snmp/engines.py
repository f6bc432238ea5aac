"""SNMP logins, and the SNMP engines of a program: one for all communities, and one for each SNMPv3 user and key.

A login is a community, or an SNMPv3 user with up to two keys. OIDs are numbers, so that pysnmp loads no MIB compiler.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UsmUserData,
)
from pysnmp.proto.rfc1902 import ObjectIdentifier
from pysnmp.proto.rfc1905 import unSpecified

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential, Secret, read_secret
from offpeak.machines.inventory import Pdu
from offpeak.process import separate_snmp_random_numbers
from offpeak.text import did_you_mean

VERSIONS = ("1", "2c", "3")
AUTHENTICATIONS = ("MD5", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512")
PRIVACIES = ("DES", "3DES", "AES", "AES-192", "AES-256", "AES-192-C", "AES-256-C")
"""AES-192 and AES-256 extend keys like net-snmp; with -C like Cisco."""

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

MAX_PARALLEL_REQUESTS = 100
"""Requests at a time: their answers are handled within a fraction of a second, before any time-out."""
LISTED_AT_ONCE = 4
"""The number of PDUs that list their rows at a time. Their answers are long and take some milliseconds to decode; with
more, the answers of BMCs would be read too late.
"""


@dataclass(frozen=True)
class SnmpLogin:
    """The login to a PDU; a missing key is None. Keys and communities are never shown."""

    version: str
    user: str = ""
    community: Secret | None = None
    key: Secret | None = None
    privacy_key: Secret | None = None
    authentication: str = "SHA"
    privacy: str = "AES"

    @property
    def keys(self) -> Secret:
        """Both keys as one secret, so that a change of either key counts as a new one."""
        return Secret(b"\0".join(key.value for key in (self.key, self.privacy_key) if key))


def read_snmp_login(pdu: Pdu) -> SnmpLogin:
    """Read the login from its files. Raises BadInventory for what SNMP does not define, BadInput like `read_secret`."""
    credential, where = pdu.credential, f"credentials.{pdu.credential.name}"
    if pdu.version not in VERSIONS:
        raise BadInventory(f"pdus.{pdu.name}: {pdu.version!r} is not a version of SNMP", hint='known: "1", "2c", "3"')
    if pdu.version != "3":
        return SnmpLogin(pdu.version, community=credential.password())
    if not credential.user:
        raise BadInventory(f"{where}: SNMPv3 needs a user", hint=f"add user below [{where}]")
    if credential.privacy_file and not credential.password_file:
        raise BadInventory(f"{where}: privacy requires authentication", hint=f"add password_file below [{where}]")
    _check_choice(credential, "authentication", credential.authentication, AUTHENTICATIONS)
    _check_choice(credential, "privacy", credential.privacy, PRIVACIES)
    return SnmpLogin(
        version="3",
        user=credential.user,
        community=None,
        key=credential.password() if credential.password_file else None,
        privacy_key=read_secret(credential.privacy_file) if credential.privacy_file else None,
        authentication=credential.authentication,
        privacy=credential.privacy,
    )


def _check_choice(credential: Credential, key: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise BadInventory(
            f"credentials.{credential.name}.{key}: {name!r} is not known", hint=did_you_mean(name, known)
        )


class NumericOid(ObjectType):  # type: ignore[misc]
    """A numeric OID. For other OIDs pysnmp loads its MIB compiler, which takes a second for each engine."""

    def __init__(self, oid: str) -> None:
        super().__init__(ObjectIdentity(oid))
        self._pair = (_object_identifier(oid), unSpecified)

    def __getitem__(self, index: int) -> Any:
        return self._pair[index]

    def resolve_with_mib(self, *_args: object, **_options: object) -> "NumericOid":
        """Return the object unchanged."""
        return self


@lru_cache(maxsize=10_000)
def _object_identifier(oid: str) -> Any:
    return ObjectIdentifier(oid)


class SnmpEngines:
    """Opens engines when they are needed and closes them after their last user.

    pysnmp identifies SNMPv3 users by name only: two keys of one name in one engine would overwrite each other.
    """

    def __init__(self) -> None:
        self._engines: dict[SnmpLogin | None, SnmpEngine] = {}
        self._users: set[object] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def engine(self, login: SnmpLogin, user: object) -> SnmpEngine:
        """Return the engine for a login, for `user` to use until it is released."""
        self._enter_loop()
        self._users.add(user)
        key = login if login.version == "3" else None
        if key not in self._engines:
            separate_snmp_random_numbers()
            self._engines[key] = SnmpEngine()
        return self._engines[key]

    def asking(self) -> asyncio.Semaphore:
        """Return the semaphore of requests."""
        self._enter_loop()
        return self._asking

    def listing(self) -> asyncio.Semaphore:
        """Return the semaphore of walks over the rows of a PDU."""
        self._enter_loop()
        return self._listing

    def release(self, user: object) -> None:
        """Close all engines after their last user."""
        self._users.discard(user)
        if not self._users:
            for engine in self._engines.values():
                _close_engine(engine)
            self._engines = {}

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._engines, self._users, self._loop = {}, set(), loop
            self._asking, self._listing = asyncio.Semaphore(MAX_PARALLEL_REQUESTS), asyncio.Semaphore(LISTED_AT_ONCE)


def _close_engine(engine: SnmpEngine) -> None:
    """Stop receiving, then close: pysnmp logs an error for an answer that it is still processing."""
    dispatcher = engine.transport_dispatcher
    for domain in (udp.DOMAIN_NAME, udp6.DOMAIN_NAME) if dispatcher else ():
        with suppress(CarrierError):
            if (transport := dispatcher.get_transport(domain).transport) is not None:
                transport.close()
    asyncio.get_running_loop().call_soon(engine.close_dispatcher)


def auth_data_of(login: SnmpLogin) -> CommunityData | UsmUserData:
    """Return the login as a pysnmp object."""
    if login.community:
        return CommunityData(_decode_secret(login.community), mpModel=0 if login.version == "1" else 1)
    return UsmUserData(
        login.user,
        authKey=_decode_secret(login.key) if login.key else None,
        privKey=_decode_secret(login.privacy_key) if login.privacy_key else None,
        authProtocol=_AUTHENTICATION[login.authentication] if login.key else None,
        privProtocol=_PRIVACY[login.privacy] if login.privacy_key else None,
    )


def _decode_secret(secret: Secret) -> str:
    # pysnmp encodes the text as the same bytes again; in Latin-1 any bytes are text.
    return secret.value.decode("latin-1")
