"""Commands of the network function App: who the BMC is, how to log in, and the session (chapters 20 and 22)."""

import uuid

from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep
from sim_backend.virtual.bmc import ADMINISTRATOR, NAMESPACE
from sim_backend.virtual.rmcp.call import NO_PRIVILEGE, WRONG_FIELD, Call, Refused
from sim_backend.virtual.rmcp.cipher_suites import SUITES, CipherSuite
from sim_backend.virtual.rmcp.login import guid_bytes
from sim_backend.virtual.rmcp.session import Session

LAN_CHANNEL, THIS_CHANNEL = 1, 0x0E
PRIVILEGE_EXCEEDED, NO_SUCH_SESSION = 0x81, 0x87

S0, S3, S5, UNKNOWN = 0x00, 0x03, 0x05, 0x2A
"""System power states of section 20.7."""


def device_id(_: Call) -> bytes:
    """Get Device ID, section 20.1: an unspecified maker's chassis device, firmware 1.00, IPMI 2.0."""
    return bytes([0x20, 0x01, 0x01, 0x00, 0x02, 0x80]) + bytes(3) + bytes(2)


def device_guid(call: Call) -> bytes:
    """Get Device GUID, section 20.8: of the BMC, which is not that of the system."""
    return uuid.uuid5(NAMESPACE, str(call.bmc.guid)).bytes[::-1]


def system_guid(call: Call) -> bytes:
    """Get System GUID, section 22.14."""
    return guid_bytes(call.bmc)


def acpi_power_state(call: Call) -> bytes:
    """Get ACPI Power State, section 20.7: of the system and of the device; unknown on the way from one to another."""
    known = {ACTIVE: (S0, 0), FAILED: (UNKNOWN, UNKNOWN), asleep(STANDBY): (S3, 3), asleep(OFF): (S5, 3)}
    return bytes(known.get(call.bmc.node.now().state, (UNKNOWN, UNKNOWN)))


def authentication_capabilities(call: Call) -> bytes:
    """Get Channel Authentication Capabilities, section 22.13: sessions of IPMI 2.0, by user name."""
    _check_channel(call)
    asked_for_plus = call.byte(0) & 0x80
    call.byte(1)
    return bytes([LAN_CHANNEL, asked_for_plus, 0x04, 0x02 if asked_for_plus else 0]) + bytes(4)


def cipher_suites(call: Call) -> bytes:
    """Get Channel Cipher Suites, section 22.15: sixteen bytes of the list, from the index asked for."""
    _check_channel(call)
    start = (call.byte(2) & 0x3F) * 16
    return bytes([LAN_CHANNEL]) + b"".join(map(_record, SUITES))[start : start + 16]


def set_privilege(call: Call) -> bytes:
    """Set Session Privilege Level, section 22.18; 0 asks what it is."""
    session, level = _own(call), call.byte(0) & 0x0F
    if level > ADMINISTRATOR or level == 1:
        raise Refused(WRONG_FIELD)
    if level > session.limit:
        raise Refused(PRIVILEGE_EXCEEDED)
    session.privilege = level or session.privilege
    return bytes([session.privilege])


def close_session(call: Call) -> bytes:
    """Close Session, section 22.19: the own one, or any for an administrator."""
    session, managed_id = _own(call), int.from_bytes(call.data[:4], "little")
    call.byte(3)
    if managed_id != session.managed_id and session.privilege < ADMINISTRATOR:
        raise Refused(NO_PRIVILEGE)
    if not call.sessions.close(managed_id):
        raise Refused(NO_SUCH_SESSION)
    return b""


def _record(suite: CipherSuite) -> bytes:
    authentication, integrity, confidentiality = suite.algorithms
    return bytes([0xC0, suite.number, authentication, 0x40 | integrity, 0x80 | confidentiality])


def _check_channel(call: Call) -> None:
    if call.byte(0) & 0x0F not in (LAN_CHANNEL, THIS_CHANNEL):
        raise Refused(WRONG_FIELD)


def _own(call: Call) -> Session:
    if call.session is None:
        raise Refused(NO_PRIVILEGE)
    return call.session
