"""Signatures of snapshots that travel over HTTP: request and reply are signed with a key that both sides have.

The signature (HMAC-SHA256) covers the direction, the requested site, the time and a nonce of the request. A reply
counts for one request and one site: an old reply, a reply of another site with the same key, and a request that is sent
back are refused.
"""

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.machines.credentials import Secret

TIME, SITE, NONCE, SIGNATURE = "X-Offpeak-Time", "X-Offpeak-Site", "X-Offpeak-Nonce", "X-Offpeak-Signature"
REQUEST, ANSWER = "request", "answer"
GOOD_FOR_S = 60.0
_NONCE = re.compile(r"[0-9a-f]{32}")
_SITE = re.compile(r"[\w.-]{1,100}")
_TIME = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True)
class Stamp:
    """The requested site, the time of the signature, and the nonce of the request, which the answer repeats."""

    site: str
    at_unix_s: int
    nonce: str

    def headers(self, secret: Secret, kind: str, body: bytes) -> dict[str, str]:
        """Return the headers of a signed request or answer."""
        signature = sign(secret, kind, self, body)
        return {TIME: str(self.at_unix_s), SITE: self.site, NONCE: self.nonce, SIGNATURE: signature}


def new_stamp(site: str, now_unix_s: float) -> Stamp:
    """Return the stamp of a new request."""
    return Stamp(site, int(now_unix_s), secrets.token_hex(16))


def sign(secret: Secret, kind: str, stamp: Stamp, body: bytes) -> str:
    """Return the HMAC-SHA256 over kind, site, time, nonce and body, a line each, in hexadecimal."""
    lines = f"{kind}\n{stamp.site}\n{stamp.at_unix_s}\n{stamp.nonce}\n".encode()
    return hmac.new(secret.value, lines + body, hashlib.sha256).hexdigest()


def check_stamp(secret: Secret, kind: str, headers: Mapping[str, str], body: bytes) -> Stamp:
    """Return the stamp of a request or an answer. Raises BadInput unless it is signed with the key."""
    given = {name.lower(): value for name, value in headers.items()}
    at, site, nonce, signature = (given.get(name.lower(), "") for name in (TIME, SITE, NONCE, SIGNATURE))
    stamp = Stamp(site, int(at), nonce) if _TIME.fullmatch(at) else None
    whole = stamp is not None and _SITE.fullmatch(site) and _NONCE.fullmatch(nonce)
    shown = signature.encode(errors="replace")
    if stamp is None or not whole or not hmac.compare_digest(sign(secret, kind, stamp, body).encode(), shown):
        hint = "secret_file must hold the same line on both sides, and both must run the same version"
        raise BadInput("is not signed with our key", hint=hint)
    return stamp


def check_answer(answer: Stamp, request: Stamp) -> None:
    """Raise BadInput if the answer is to another request; its time does not matter, because the nonce is new."""
    if answer.nonce != request.nonce:
        raise BadInput("answers another request", hint="an old answer was sent again, or a proxy keeps answers")
    if answer.site != request.site:
        hint = "a site has the same name in both files of sites"
        raise BadInput(f"answers for the site {answer.site}, not for {request.site}", hint=hint)


class ReplayGuard:
    """Remembers the signed requests of the last minutes, so that each is answered once."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lock = threading.Lock()

    def check(self, stamp: Stamp, now_unix_s: float) -> None:
        """Raise BadInput for a request whose time is more than a minute off, and for a repeated one."""
        apart_s = abs(now_unix_s - stamp.at_unix_s)
        if apart_s > GOOD_FOR_S:
            hint = "set both clocks by NTP; or an old request was sent again"
            raise BadInput(f"the time of the request differs from this clock by {apart_s:.0f} s", hint=hint)
        with self._lock:
            self._seen = {nonce: at for nonce, at in self._seen.items() if abs(now_unix_s - at) <= GOOD_FOR_S}
            if stamp.nonce in self._seen:
                raise BadInput("the request was answered before", hint="an old request was sent again")
            self._seen[stamp.nonce] = stamp.at_unix_s
