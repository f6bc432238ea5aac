"""Logins that do not lock accounts: a refused password is not tried a second time."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from offpeak.errors import AccessRefused
from offpeak.machines.credentials import Credential, Secret

FIRST_LOGIN_ALONE_S = 0.5
"""How long a password that no device has accepted yet is tried at one device only, lest a wrong one locks all
accounts.
"""

Session = TypeVar("Session")


@dataclass
class _LoginRecord:
    """Whether a device has accepted one password, and which devices have refused it."""

    accepted: bool = False
    refused_by: list[str] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Logins:
    """Remembers which passwords were accepted or refused. A changed password file counts as a new password."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, Secret | None], _LoginRecord] = defaultdict(_LoginRecord)

    async def log_in(
        self, credential: Credential, host: str, attempt: Callable[[], Awaitable[Session]], *, secret: Secret | None
    ) -> Session:
        """Return the result of `attempt`. Raises AccessRefused without an attempt if this host refused the secret
        before.

        The same applies if another device has refused the secret and none has accepted it.
        """
        record = self._records[credential.name, secret]
        async with record.turn:
            _check_refusals(record, credential, host)
            attempted = asyncio.ensure_future(_record_login(record, host, attempt))
            try:
                if not record.accepted:
                    await asyncio.wait({attempted}, timeout=FIRST_LOGIN_ALONE_S)
            except asyncio.CancelledError:
                attempted.cancel()
                raise
        return await attempted


async def _record_login(record: _LoginRecord, host: str, attempt: Callable[[], Awaitable[Session]]) -> Session:
    try:
        session = await attempt()
    except AccessRefused:
        record.refused_by.append(host)
        raise
    record.accepted = True
    return session


def _check_refusals(record: _LoginRecord, credential: Credential, host: str) -> None:
    if host in record.refused_by:
        by = host
    elif record.refused_by and not record.accepted:
        by = record.refused_by[0]
    else:
        return
    hint = f"fix {credential.password_file or credential.key_file}, and the login below [credentials.{credential.name}]"
    raise AccessRefused(f"{host}: not tried: {by} refused the login {credential.name}", hint=hint)
