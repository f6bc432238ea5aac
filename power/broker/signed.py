"""Answers that travel over HTTP: signed with a key that both sides have, and worth nothing after a minute."""

import hashlib
import hmac

from offpeak.errors import BadInput
from offpeak.machines.secret import Secret

TIME, SIGNATURE = "X-Offpeak-Time", "X-Offpeak-Signature"
GOOD_FOR_S = 60.0


def sign(secret: Secret, at_unix_s: int, body: bytes) -> str:
    """Return the signature of what is said at that time: HMAC-SHA256 over time and body, in hexadecimal."""
    return hmac.new(secret.value, b"%d\n%s" % (at_unix_s, body), hashlib.sha256).hexdigest()


def check_signed(secret: Secret, at: str, signature: str, body: bytes, *, now_unix_s: float) -> None:
    """Raise BadInput unless the signature is right and not older than a minute; clocks may differ by as much."""
    if not at.isdecimal() or not hmac.compare_digest(sign(secret, int(at), body), signature):
        raise BadInput("is not signed with our key", hint="secret_file must hold the same line on both sides")
    if abs(now_unix_s - int(at)) > GOOD_FOR_S:
        hint = "set both clocks by NTP; somebody may be sending an old answer again"
        raise BadInput(f"was signed {now_unix_s - int(at):.0f} s ago", hint=hint)
