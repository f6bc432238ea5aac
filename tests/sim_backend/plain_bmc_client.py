"""A client that hands a virtual BMC datagrams one by one, at whatever time a test says: no sockets, no waiting."""

import random
from dataclasses import dataclass, field, replace

from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.node import BmcUser, LiveNode, VirtualBmc, VirtualNode
from offpeak.sim_backend.virtual.rmcp.login import LoginDesk
from offpeak.sim_backend.virtual.rmcp.server import reply_to
from offpeak.sim_backend.virtual.rmcp.sessions import (
    OPEN_REQUEST,
    RAKP1,
    RAKP3,
    SUITES,
    BmcSession,
    CipherSuite,
    Packet,
    SessionTable,
    keys_of,
    opened,
    read_packet,
    sealed,
    write_packet,
)

ADMIN, PASSWORD = b"admin", b"secret"
CONSOLE_ID = 0xA0A1A2A3
CONSOLE_RANDOM = bytes(range(16))
ROLE = 0x14


def new_desk() -> LoginDesk:
    """Return a BMC that nobody has spoken to, with a node that stands still in time."""
    node = LiveNode("n1", lambda: 0.0, random.Random(1), VirtualNode(bundled_node_class("server")))
    return LoginDesk(VirtualBmc(node, {ADMIN: BmcUser(PASSWORD)}), SessionTable())


def request(function: int, command: int, data: bytes = b"") -> bytes:
    """Return the message of a command, with both checksums."""
    head, body = bytes([0x20, function << 2]), bytes([0x81, 4, command]) + data
    return b"".join(part + bytes([-sum(part) & 0xFF]) for part in (head, body))


@dataclass
class PlainClient:
    """Speaks to one BMC. `status` is what the last step of the login said; `now_s` is the time of the BMC."""

    desk: LoginDesk
    suite: CipherSuite = SUITES[1]
    password: bytes = PASSWORD
    now_s: float = 0.0
    status: int = 0
    session: BmcSession | None = field(default=None)

    def send(self, datagram: bytes) -> bytes | None:
        """Return the BMC's answer to any bytes."""
        return reply_to(self.desk, datagram, self.now_s)

    def log_in(self) -> bool:
        """Go through all steps; tells whether the session is open."""
        algorithms = b"".join(
            bytes([kind, 0, 0, 8, number, 0, 0, 0]) for kind, number in enumerate(self.suite.algorithms)
        )
        opening = self.step(OPEN_REQUEST, b"\x01\x00\x00\x00" + CONSOLE_ID.to_bytes(4, "little") + algorithms)
        if self.status:
            return False
        managed_id = opening[8:12]
        requested = bytes([ROLE, 0, 0, len(ADMIN)]) + ADMIN
        answer = self.step(RAKP1, b"\x02\x00\x00\x00" + managed_id + CONSOLE_RANDOM + requested)
        if self.status:
            return False
        proof, key = self._hashes(answer[8:24])
        self.step(RAKP3, b"\x03\x00\x00\x00" + managed_id + proof)
        if self.status:
            return False
        # Towards the BMC the two numbers of the session change places.
        self.session = BmcSession(CONSOLE_ID, int.from_bytes(managed_id, "little"), self.suite, self.now_s)
        self.session.keys = keys_of(self.suite, key)
        return True

    def step(self, kind: int, payload: bytes) -> bytes:
        """Return the BMC's next message of the login."""
        answer = self.send(write_packet(Packet(kind, 0, 0, payload)))
        assert answer is not None
        self.status = read_packet(answer).payload[1]
        return read_packet(answer).payload

    def sealed(self, message: bytes) -> bytes:
        """Return the datagram of a message in the session, with the next number."""
        assert self.session is not None
        assert self.session.keys is not None
        return sealed(self.session, self.session.keys, message)

    def ask(self, function: int, command: int, data: bytes = b"") -> bytes | None:
        """Return completion code and data, None if nothing was answered."""
        return self.read(self.send(self.sealed(request(function, command, data))))

    def read(self, datagram: bytes | None) -> bytes | None:
        """Return completion code and data of an answer in the session."""
        assert self.session is not None
        assert self.session.keys is not None
        if datagram is None:
            return None
        message = opened(self.session, self.session.keys, datagram, read_packet(datagram))
        return message[6:-1]

    def _hashes(self, managed_random: bytes) -> tuple[bytes, bytes]:
        """Return the proof that the password is known, and the session integrity key."""
        name = bytes([ROLE, len(ADMIN)]) + ADMIN
        proof = self.suite.code(self.password, managed_random, CONSOLE_ID.to_bytes(4, "little"), name)
        return proof, self.suite.code(self.password, CONSOLE_RANDOM, managed_random, name)


def renumbered(client: PlainClient, message: bytes, number: int) -> bytes:
    """Return the datagram of a message with a sequence number of one's choice."""
    assert client.session is not None
    assert client.session.keys is not None
    other = replace(client.session, sent=number - 1)
    return sealed(other, client.session.keys, message)
