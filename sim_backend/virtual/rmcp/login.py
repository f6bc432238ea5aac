"""Logging in to a virtual BMC: Open Session and RAKP messages 1 to 4 (sections 13.17 to 13.24)."""

import hmac
import secrets
import struct
from dataclasses import dataclass

from offpeak.sim_backend.virtual.node import ADMINISTRATOR, CALLBACK, USER, BmcUser, VirtualBmc
from offpeak.sim_backend.virtual.rmcp.sessions import SUITES, BmcSession, Malformed, SessionTable, keys_of

NO_RESOURCES, INVALID_SESSION = 0x01, 0x02
INVALID_AUTHENTICATION, INVALID_INTEGRITY, INVALID_CONFIDENTIALITY, NO_SUITE = 0x04, 0x05, 0x10, 0x11
INVALID_ROLE, UNAUTHORIZED_ROLE, UNAUTHORIZED_NAME, INVALID_CHECK = 0x09, 0x0A, 0x0D, 0x0F
"""Status codes of table 13-15."""

NAME_ONLY = 0x10
"""Bit of the role in RAKP 1: the user is looked up by name, independent of the role."""

ALGORITHM = struct.Struct("<BxxBBxxx")


@dataclass(frozen=True)
class LoginDesk:
    """The login of clients at a BMC."""

    bmc: VirtualBmc
    sessions: SessionTable


def open_session(desk: LoginDesk, request: bytes, now_s: float) -> bytes:
    """Return the response to an Open Session Request (tables 13-9 and 13-10)."""
    if len(request) < 32:
        raise Malformed("open session")
    tag, requested, console_id = request[0], request[1] & 0x0F, request[4:8]
    algorithms = tuple(ALGORITHM.unpack_from(request, at)[2] for at in (8, 16, 24))
    suite = next((suite for suite in SUITES if suite.algorithms == algorithms), None)
    if suite is None:
        known = zip(*(suite.algorithms for suite in SUITES), strict=True)
        statuses = (INVALID_AUTHENTICATION, INVALID_INTEGRITY, INVALID_CONFIDENTIALITY)
        unknown = [
            status for number, numbers, status in zip(algorithms, known, statuses, strict=True) if number not in numbers
        ]
        return bytes([tag, unknown[0] if unknown else NO_SUITE, 0, 0]) + console_id
    session = desk.sessions.open(int.from_bytes(console_id, "little"), suite, now_s)
    if session is None:
        return bytes([tag, NO_RESOURCES, 0, 0]) + console_id
    granted = bytes([tag, 0, min(requested or ADMINISTRATOR, ADMINISTRATOR), 0])
    chosen = b"".join(ALGORITHM.pack(kind, 8, number) for kind, number in enumerate(suite.algorithms))
    return granted + console_id + session.managed_id.to_bytes(4, "little") + chosen


def rakp_1(desk: LoginDesk, request: bytes, now_s: float) -> bytes:
    """Return RAKP message 2: the identity of the BMC, and the proof that it knows the user's password."""
    if len(request) < 28 or len(request) < 28 + request[27]:
        raise Malformed("RAKP 1")
    tag, name = request[0], request[28 : 28 + request[27]]
    session = _session(desk, request, now_s)
    if session is None or session.keys is not None:
        return bytes([tag, INVALID_SESSION, 0, 0]) + bytes(4)
    if session.console_random != request[8:24]:
        desk.bmc.logins.begun += 1
        session.console_random, session.managed_random = request[8:24], secrets.token_bytes(16)
    user = _allowed(desk.bmc, name, request[24])
    if isinstance(user, int):
        desk.sessions.close(session.managed_id)
        return bytes([tag, user, 0, 0]) + _console_id(session)
    session.user, session.requested_role = name, request[24:25]
    session.limit = min(request[24] & 0x0F, user.privilege)
    guid = guid_bytes(desk.bmc)
    proof = session.suite.code(user.password, _ids(session), _randoms(session), guid, _role_and_name(session))
    return bytes([tag, 0, 0, 0]) + _console_id(session) + session.managed_random + guid + proof


def rakp_3(desk: LoginDesk, request: bytes, now_s: float) -> bytes | None:
    """Return RAKP message 4, which opens the session if the client knows the password; None if it gave up."""
    if len(request) < 8:
        raise Malformed("RAKP 3")
    tag, status = request[0], request[1]
    session = _session(desk, request, now_s)
    if session is None or not session.requested_role:
        return None if status else bytes([tag, INVALID_SESSION, 0, 0]) + bytes(4)
    password = desk.bmc.users[session.user].password
    expected = session.suite.code(password, session.managed_random, _console_id(session), _role_and_name(session))
    if status or not hmac.compare_digest(request[8:], expected):
        # Any client could have sent this: it ends the login, not a session.
        if session.keys is not None:
            raise Malformed("RAKP 3 in a session")
        desk.sessions.close(session.managed_id)
        return None if status else bytes([tag, INVALID_CHECK, 0, 0]) + _console_id(session)
    session.received_s = now_s
    key = session.suite.code(password, _randoms(session), _role_and_name(session))
    if session.keys is None:
        desk.bmc.logins.accepted += 1
        session.privilege = min(USER, session.limit)
    session.keys = keys_of(session.suite, key)
    managed_id = session.managed_id.to_bytes(4, "little")
    proof = session.suite.code(key, session.console_random, managed_id, guid_bytes(desk.bmc))
    return bytes([tag, 0, 0, 0]) + _console_id(session) + proof[: session.suite.check_bytes]


def guid_bytes(bmc: VirtualBmc) -> bytes:
    """Return the GUID in transmission order, least significant byte first (section 20.8)."""
    return bmc.guid.bytes[::-1]


def _allowed(bmc: VirtualBmc, name: bytes, role: int) -> BmcUser | int:
    """Return the user, or the status code with the reason why the user may not log in with that role."""
    user, level = bmc.users.get(name), role & 0x0F
    if user is None:
        return UNAUTHORIZED_NAME
    if not CALLBACK <= level <= ADMINISTRATOR:
        return INVALID_ROLE
    if level > user.privilege:
        return UNAUTHORIZED_ROLE if role & NAME_ONLY else UNAUTHORIZED_NAME
    return user


def _session(desk: LoginDesk, request: bytes, now_s: float) -> BmcSession | None:
    return desk.sessions.find(int.from_bytes(request[4:8], "little"), now_s)


def _console_id(session: BmcSession) -> bytes:
    return session.console_id.to_bytes(4, "little")


def _ids(session: BmcSession) -> bytes:
    return _console_id(session) + session.managed_id.to_bytes(4, "little")


def _randoms(session: BmcSession) -> bytes:
    return session.console_random + session.managed_random


def _role_and_name(session: BmcSession) -> bytes:
    return session.requested_role + bytes([len(session.user)]) + session.user
