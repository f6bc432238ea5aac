"""The access to the page: users of this machine, or holders of the token; and what browsers may do with it."""

import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from offpeak.errors import BadInput, BadSetting
from offpeak.machines.credentials import Secret

COOKIE = "offpeak_page"
HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def parse_page_listen(listen: str) -> tuple[str, int]:
    """Return host and port of `page.listen`. Raises BadSetting if it is no address with a port."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadSetting(f"page.listen: {listen!r} is not an address with a port", hint="write it like 127.0.0.1:8017")
    return host, int(port)


def check_page_listen(host: str, token: Secret | None) -> None:
    """Raise BadInput if other machines could see the page without a token."""
    if token is None and not is_loopback(host):
        hint = "(umask 077; openssl rand -hex 32 >FILE), and name it: token_file below [page]"
        raise BadInput(f"page.listen: {host} can be reached from other machines: that needs a token", hint=hint)


def may_see(headers: Mapping[str, str], token: Secret | None) -> bool:
    """Return whether a request is allowed.

    Without a token the host must be this machine: a page of another site whose name resolves to this address must not
    pass.
    """
    if token is None:
        return is_loopback(_host(headers.get("host", "")))
    shown = headers.get("authorization", "").removeprefix("Bearer ") or _cookie(headers.get("cookie", ""))
    return is_token(shown, token)


def is_token(shown: str, token: Secret) -> bool:
    """Return whether that is the token."""
    return hmac.compare_digest(shown.encode(errors="replace"), token.value)


def is_loopback(host: str) -> bool:
    """Return whether that name or address is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
