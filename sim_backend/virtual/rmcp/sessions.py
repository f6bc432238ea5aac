"""The datagrams and the sessions of a virtual BMC, and its cipher suites (sections 6.12.13, 13.6 and 13.28 to 13.32).

The layers of a datagram: RMCP, ASF's presence ping, the session headers of IPMI 1.5 and 2.0, and IPMI messages. Packets
of a session are protected, and each is accepted once. Sessions are few, as in real BMCs, and are closed when their
client is silent.
"""

import hmac
import secrets
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from offpeak.sim_backend.virtual.node import USER

IPMI_CLASS = b"\x06\x00\xff\x07"
"""RMCP header of IPMI messages: version 1.0, no acknowledgement, class 7 (IPMI v2.0, section 13.1)."""
ASF_CLASS = b"\x06\x00\xff\x06"

IPMI, OPEN_REQUEST, OPEN_RESPONSE, RAKP1, RAKP2, RAKP3, RAKP4 = 0x00, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
"""Payload types of table 13-16."""

ENCRYPTED, AUTHENTICATED = 0x80, 0x40
RMCP_PLUS = 0x06
HEADER_V20 = struct.Struct("<BBIIH")
HEADER_V15 = struct.Struct("<BIIB")

ASF_IANA = b"\x00\x00\x11\xbe"
PING, PONG = 0x80, 0x40
BMC_ADDRESS = 0x20
BLOCK = 16
NEXT_HEADER = 0x07
SEQUENCE_WINDOW = 16
MOST_SESSIONS = 5
SILENCE_S = 60.0
"""A session is closed after this time without a packet (section 6.12.15)."""


class Malformed(ValueError):
    """A malformed datagram. The BMC does not reply to its sender."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A datagram of IPMI: `protection` are the bits ENCRYPTED and AUTHENTICATED, `plus` distinguishes 2.0 from 1.5."""

    payload_type: int
    session_id: int
    sequence: int
    payload: bytes
    protection: int = 0
    plus: bool = True


def read_packet(datagram: bytes) -> Packet:
    """Return the content of a datagram of class IPMI. Raises Malformed if it is none, or shorter than it says."""
    if datagram[:4] != IPMI_CLASS or len(datagram) < 14:
        raise Malformed("no IPMI")
    session, header = datagram[4:], HEADER_V20 if datagram[4] == RMCP_PLUS else HEADER_V15
    if len(session) < header.size:
        raise Malformed("ends in its header")
    if header is HEADER_V20:
        _, kind, session_id, sequence, size = header.unpack_from(session)
    else:
        kind, sequence, session_id, size = header.unpack_from(session)
    payload = session[header.size : header.size + size]
    if len(payload) != size:
        raise Malformed("ends in its payload")
    if header is HEADER_V20:
        return Packet(kind & 0x3F, session_id, sequence, payload, kind & (ENCRYPTED | AUTHENTICATED))
    # Sessions of IPMI 1.5 are not offered, so nothing of theirs is read.
    if kind or session_id:
        raise Malformed("a session of IPMI 1.5")
    return Packet(IPMI, session_id, sequence, payload, plus=False)


def write_packet(packet: Packet) -> bytes:
    """Return the datagram of a packet, up to the end of its payload: what follows is the session's."""
    if not packet.plus:
        return IPMI_CLASS + HEADER_V15.pack(0, 0, 0, len(packet.payload)) + packet.payload
    kind = packet.payload_type | packet.protection
    header = HEADER_V20.pack(RMCP_PLUS, kind, packet.session_id, packet.sequence, len(packet.payload))
    return IPMI_CLASS + header + packet.payload


def pong(datagram: bytes) -> bytes | None:
    """Return the answer to an ASF presence ping (section 13.2), None for any other datagram."""
    if datagram[:4] != ASF_CLASS or datagram[4:8] != ASF_IANA or datagram[8:9] != bytes([PING]) or len(datagram) < 12:
        return None
    # IPMI is supported, ASF 1.0; no security extensions.
    body = ASF_IANA + bytes(4) + b"\x81\x00" + bytes(6)
    return ASF_CLASS + ASF_IANA + bytes([PONG, datagram[9], 0, len(body)]) + body


@dataclass(frozen=True, slots=True)
class IpmiMessage:
    """A command: its network function and number, its data, and what makes its answer find the way back."""

    function: int
    command: int
    data: bytes
    requester: int
    lun: int
    sequence_and_lun: int


def read_request(message: bytes) -> IpmiMessage:
    """Return the request in a payload.

    Raises Malformed if it is too short, damaged, a reply, or for another address.
    """
    if len(message) < 7 or sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        raise Malformed("checksum")
    function = message[1] >> 2
    if message[0] != BMC_ADDRESS or function & 1:
        raise Malformed("not for the BMC")
    return IpmiMessage(function, message[5], message[6:-1], message[3], message[1] & 3, message[4])


def write_answer(request: IpmiMessage, answer: bytes) -> bytes:
    """Return the reply to a request; `answer` begins with the completion code."""
    head = bytes([request.requester, (request.function | 1) << 2 | request.sequence_and_lun & 3])
    body = bytes([BMC_ADDRESS, request.sequence_and_lun & ~3 | request.lun, request.command]) + answer
    return head + _checksum(head) + body + _checksum(body)


def _checksum(part: bytes) -> bytes:
    return bytes([-sum(part) & 0xFF])


@dataclass(frozen=True)
class CipherSuite:
    """A suite by the numbers of its algorithms; `check_bytes` is the length of the integrity code in a packet."""

    number: int
    authentication: int
    integrity: int
    hash_name: str
    check_bytes: int
    confidentiality: int = 1

    @property
    def algorithms(self) -> tuple[int, int, int]:
        """The numbers for authentication, integrity and confidentiality."""
        return self.authentication, self.integrity, self.confidentiality

    def code(self, key: bytes, *parts: bytes) -> bytes:
        """Return the keyed hash of the parts one after another."""
        return hmac.digest(key, b"".join(parts), self.hash_name)


SUITES = (CipherSuite(3, 1, 1, "sha1", 12), CipherSuite(17, 3, 4, "sha256", 16))
"""HMAC-SHA1 with SHA1-96, HMAC-SHA256 with SHA256-128; both with AES-CBC-128."""


@dataclass(frozen=True)
class Keys:
    """What a session's packets are protected with."""

    integrity: bytes
    confidentiality: bytes


def keys_of(suite: CipherSuite, session_key: bytes) -> Keys:
    """Return the keys made of the session integrity key (section 13.32)."""
    return Keys(suite.code(session_key, b"\x01" * 20), suite.code(session_key, b"\x02" * 20)[:16])


def encrypted(key: bytes, payload: bytes) -> bytes:
    """Return initialization vector and cipher text, with the padding 1, 2, 3 ... of table 13-20."""
    pad = -(len(payload) + 1) % BLOCK
    vector = secrets.token_bytes(BLOCK)
    cipher = Cipher(AES(key), CBC(vector)).encryptor()
    return vector + cipher.update(payload + bytes(range(1, pad + 1)) + bytes([pad])) + cipher.finalize()


def decrypted(key: bytes, payload: bytes) -> bytes:
    """Return the plain payload. Raises Malformed if it is no number of blocks, or its padding is wrong."""
    if len(payload) < 2 * BLOCK or len(payload) % BLOCK:
        raise Malformed("not whole blocks")
    cipher = Cipher(AES(key), CBC(payload[:BLOCK])).decryptor()
    plain = cipher.update(payload[BLOCK:]) + cipher.finalize()
    pad = plain[-1]
    if pad >= BLOCK or plain[-1 - pad : -1] != bytes(range(1, pad + 1)):
        raise Malformed("padding")
    return plain[: -1 - pad]


@dataclass(frozen=True)
class SequenceWindow:
    """Which sequence numbers came: the highest, and the bits of those that came among the sixteen up to it."""

    highest: int = 0
    came: int = 1

    def after(self, number: int) -> "SequenceWindow | None":
        """Return the window after a packet of that number, None if it is too old, too far ahead, or came before."""
        ahead = (number - self.highest) & 0xFFFFFFFF
        if 0 < ahead <= SEQUENCE_WINDOW:
            return SequenceWindow(number, (self.came << ahead | 1) & 0xFFFF)
        bit = 1 << (-ahead & 0xFFFFFFFF) if -ahead & 0xFFFFFFFF < SEQUENCE_WINDOW else 0
        return SequenceWindow(self.highest, self.came | bit) if bit & ~self.came else None


@dataclass
class BmcSession:
    """A session from its opening on; `keys` is set when the login has succeeded.

    `requested_role` is the role as the client sent it, an input of the hashes; `limit` is the resulting privilege.
    """

    managed_id: int
    console_id: int
    suite: CipherSuite
    received_s: float
    console_random: bytes = b""
    managed_random: bytes = b""
    requested_role: bytes = b""
    user: bytes = b""
    limit: int = USER
    privilege: int = USER
    keys: Keys | None = None
    window: SequenceWindow = field(default_factory=SequenceWindow)
    sent: int = 0


def opened(session: BmcSession, keys: Keys, datagram: bytes, packet: Packet) -> bytes:
    """Return the payload of a packet in the session. Raises Malformed unless it is sealed by its keys and new."""
    if packet.protection != ENCRYPTED | AUTHENTICATED or packet.payload_type != IPMI:
        raise Malformed("not protected")
    signed, code = datagram[4 : -session.suite.check_bytes], datagram[-session.suite.check_bytes :]
    expected = session.suite.code(keys.integrity, signed)[: session.suite.check_bytes]
    if not hmac.compare_digest(code, expected):
        raise Malformed("integrity")
    window = session.window.after(packet.sequence)
    if window is None:
        raise Malformed("sequence")
    session.window = window
    return decrypted(keys.confidentiality, packet.payload)


def sealed(session: BmcSession, keys: Keys, payload: bytes) -> bytes:
    """Return the datagram that carries a payload to the client, numbered and sealed."""
    session.sent = session.sent % 0xFFFFFFFF + 1
    hidden = encrypted(keys.confidentiality, payload)
    protection = ENCRYPTED | AUTHENTICATED
    head = write_packet(Packet(IPMI, session.console_id, session.sent, hidden, protection))
    # From the authentication type on, the signed part has a multiple of four bytes.
    pad = -(len(head) - 4 + 2) % 4
    whole = head + b"\xff" * pad + bytes([pad, NEXT_HEADER])
    return whole + session.suite.code(keys.integrity, whole[4:])[: session.suite.check_bytes]


@dataclass
class SessionTable:
    """Open sessions by the BMC's number for them. A login that is not complete gives way when all places are taken."""

    by_id: dict[int, BmcSession] = field(default_factory=dict)

    def open(self, console_id: int, suite: CipherSuite, now_s: float) -> BmcSession | None:
        """Return a new session, None if there is no place for it."""
        for silent_id in [key for key, session in self.by_id.items() if now_s - session.received_s > SILENCE_S]:
            self.close(silent_id)
        if len(self.by_id) >= MOST_SESSIONS:
            incomplete = [session for session in self.by_id.values() if session.keys is None]
            if not incomplete:
                return None
            self.close(min(incomplete, key=lambda session: session.received_s).managed_id)
        managed_id = secrets.randbelow(0xFFFFFFFE) + 1
        session = BmcSession(managed_id, console_id, suite, now_s)
        self.by_id[managed_id] = session
        return session

    def find(self, managed_id: int, now_s: float) -> BmcSession | None:
        """Return the open session of that number; None if there is none."""
        session = self.by_id.get(managed_id)
        if session is None or now_s - session.received_s > SILENCE_S:
            self.by_id.pop(managed_id, None)
            return None
        return session

    def close(self, managed_id: int) -> bool:
        """Close a session; return whether it was open."""
        return self.by_id.pop(managed_id, None) is not None
