"""What SNMP says instead of an answer, and which error that is to an operator."""

from typing import Any

from pysnmp.proto import errind

from offpeak.errors import AccessRefused, BadAnswer, DeviceError, NoAnswer
from power.meters.snmp.login import Login

TOO_BIG = 1
_NO_SUCH_NAME = 2
_REFUSED = (
    errind.UnknownUserName,
    errind.WrongDigest,
    errind.AuthenticationFailure,
    errind.AuthenticationError,
    errind.DecryptionError,
    errind.EncryptionError,
    errind.UnsupportedSecurityLevel,
    errind.UnsupportedAuthProtocol,
    errind.UnsupportedPrivProtocol,
)
# RFC 3416, section 3, PDU.error-status.
_NAMES = {1: "tooBig", 2: "noSuchName", 3: "badValue", 5: "genErr", 6: "noAccess", 16: "authorizationError"}


def is_missing(status: int) -> bool:
    """Tell whether an error status means that there is no such OID: v1 says so, v2c and v3 answer it as a value."""
    return status == _NO_SUCH_NAME


def name_of(status: int) -> str:
    """Return how the standard calls an error status."""
    return _NAMES.get(status, f"error {status}")


def complaint(trouble: Any, device: str, host: str, login: Login) -> DeviceError:
    """Return the error for what pysnmp says instead of an answer."""
    if isinstance(trouble, errind.RequestTimedOut):
        return NoAnswer(f"{device}: {host} does not answer to SNMP", hint=_silence(login))
    if isinstance(trouble, _REFUSED):
        hint = f"check user {login.user}, its keys and protocols on the PDU; `snmpget -v3 -u {login.user}` tries them"
        return AccessRefused(f"{device}: {host} refused SNMPv3 user {login.user}: {trouble}", hint=hint)
    return BadAnswer(f"{device}: {host}: {trouble}", hint="check that the PDU speaks this version of SNMP")


def _silence(login: Login) -> str:
    if login.version == "3":
        return (
            "a wrong privacy key may be answered with silence; check it, address, port, firewall, and the PDU's SNMPv3"
        )
    return "a wrong community is answered with silence too; check it, the address, port, firewall and allowed managers"
