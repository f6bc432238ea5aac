"""Reads known OIDs of a PDU by gufo-snmp where that is installed: it takes a small part of pysnmp's processor time.

It has versions 2c and 3, and reads values that are there. For all else, such as other versions and ciphers, errors of
a PDU, and rows that are to be found, pysnmp is used: gufo-snmp takes an error in a walk for the end of the column. Each
request has a number of its own, and an answer with another number, such as one that comes late, is dropped.
"""

import asyncio
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from offpeak.machines.credentials import Secret
from offpeak.power.meters.snmp.engines import SnmpLogin

LEAST_KEY = 8
"""Bytes; SNMPv3 has no shorter keys."""
LONGEST_S = 600.0
"""The time-out of gufo-snmp itself, above any of ours: it begins again with each packet of another request."""
REFRESH_AFTER_S = 100.0
"""A PDU rejects SNMPv3 messages whose time is more than 150 s off (RFC 3414, section 2.2.3)."""
_AUTHENTICATION = {
    "MD5": "Md5Key", "SHA": "Sha1Key", "SHA-224": "Sha224Key", "SHA-256": "Sha256Key", "SHA-384": "Sha384Key",
    "SHA-512": "Sha512Key",
}  # fmt: skip
_PRIVACY = {
    "DES": "DesKey", "AES": "Aes128Key", "AES-192": "Aes192Key", "AES-256": "Aes256Key", "AES-192-C": "Aes192Key",
    "AES-256-C": "Aes256Key",
}  # fmt: skip


class NotFast(Exception):
    """gufo-snmp has no answer that can be taken; pysnmp tells why, or has one."""


class Silent(NotFast):
    """No answer came in time."""


class FastSession:
    """A session of gufo-snmp with one PDU. Raises NotFast for every failure, after which it is given up."""

    def __init__(self, login: SnmpLogin, address: str, port: int) -> None:
        from gufo.snmp.aio import SnmpSession

        if login.community:
            community = login.community.value.decode()
            self._session = SnmpSession(address, port, community=community, timeout=LONGEST_S)
        else:
            self._session = SnmpSession(address, port, user=_user(login), timeout=LONGEST_S)
        self._used_s: float | None = None

    async def get(self, oids: tuple[str, ...], timeout_s: float) -> Mapping[str, int | bytes | str]:
        """Return the value of each OID. Raises NotFast unless the PDU has all of them and answers within that time."""
        cancellations = _count_cancellations()
        try:
            async with asyncio.timeout(timeout_s):
                if self._used_s is None or time.monotonic() - self._used_s > REFRESH_AFTER_S:
                    await self._session.refresh()
                found = await self._session.get_many(oids)
        except TimeoutError:
            raise Silent from None
        except Exception as problem:
            # A refusal, an error status: its classes do not tell which.
            raise NotFast(type(problem).__name__) from None
        if _count_cancellations() > cancellations:
            # wait_for of Python 3.11, in gufo-snmp, loses a cancellation that comes with an answer.
            raise asyncio.CancelledError
        self._used_s = time.monotonic()
        if not found.keys() >= set(oids):
            # Missing, or not told because of an error of the PDU.
            raise NotFast("not all values")
        plain = dict[str, int | bytes | str]()
        for oid, value in found.items():
            # An address is written like an OID of four numbers.
            if not isinstance(value, int | bytes | str) or (isinstance(value, str) and value.count(".") == 3):
                raise NotFast("a value of another type")
            plain[oid] = value
        return plain


def _count_cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def is_fast(login: SnmpLogin) -> bool:
    """Tell whether gufo-snmp is installed and has the version and the ciphers of a login."""
    if find_spec("gufo") is None or find_spec("gufo.snmp") is None:
        return False
    if login.version != "3":
        return login.version == "2c" and _is_utf8(login.community)
    keys = [key for key in (login.key, login.privacy_key) if key]
    has_ciphers = not login.privacy_key or login.privacy in _PRIVACY
    return login.user.isascii() and all(len(key.value) >= LEAST_KEY for key in keys) and has_ciphers


def _is_utf8(secret: Secret | None) -> bool:
    try:
        return bool(secret and secret.value.decode())
    except UnicodeDecodeError:
        return False


def _user(login: SnmpLogin) -> Any:
    from gufo.snmp import user as users

    authentication = getattr(users, _AUTHENTICATION[login.authentication])
    privacy = getattr(users, _PRIVACY[login.privacy])
    expansion = users.KeyExpansion.Cisco if login.privacy.endswith("-C") else users.KeyExpansion.Blumenthal
    return users.User(
        login.user,
        auth_key=authentication(login.key.value) if login.key else None,
        priv_key=privacy(login.privacy_key.value) if login.privacy_key else None,
        key_expansion=expansion,
    )
