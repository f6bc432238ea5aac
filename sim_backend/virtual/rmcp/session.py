"""One session of a virtual BMC: packets are protected, and each is accepted once (sections 6.12.13 and 13.6)."""

import hmac
from dataclasses import dataclass, field

from sim_backend.virtual.bmc import USER
from sim_backend.virtual.rmcp.cipher_suites import CipherSuite, Keys, decrypted, encrypted
from sim_backend.virtual.rmcp.framing import AUTHENTICATED, ENCRYPTED, IPMI, Malformed, Packet, write_packet

WINDOW = 16
NEXT_HEADER = 0x07


@dataclass(frozen=True)
class Window:
    """Which sequence numbers came: the highest, and the bits of those that came among the sixteen up to it."""

    highest: int = 0
    came: int = 1

    def after(self, number: int) -> "Window | None":
        """Return the window after a packet of that number, None if it is too old, too far ahead, or came before."""
        ahead = (number - self.highest) & 0xFFFFFFFF
        if 0 < ahead <= WINDOW:
            return Window(number, (self.came << ahead | 1) & 0xFFFF)
        bit = 1 << (-ahead & 0xFFFFFFFF) if -ahead & 0xFFFFFFFF < WINDOW else 0
        return Window(self.highest, self.came | bit) if bit & ~self.came else None


@dataclass
class Session:
    """A session from its opening on; `keys` are there once somebody has logged in.

    `asked` is the role as the client sent it, which goes into the hashes; `limit` the privilege that follows from it.
    """

    managed_id: int
    console_id: int
    suite: CipherSuite
    heard_s: float
    console_random: bytes = b""
    managed_random: bytes = b""
    asked: bytes = b""
    user: bytes = b""
    limit: int = USER
    privilege: int = USER
    keys: Keys | None = None
    window: Window = field(default_factory=Window)
    sent: int = 0


def opened(session: Session, keys: Keys, datagram: bytes, packet: Packet) -> bytes:
    """Return the payload of a packet in the session; Malformed unless it is sealed by its keys and new."""
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


def sealed(session: Session, keys: Keys, payload: bytes) -> bytes:
    """Return the datagram that carries a payload to the client, numbered and sealed."""
    session.sent = session.sent % 0xFFFFFFFF + 1
    hidden = encrypted(keys.confidentiality, payload)
    protection = ENCRYPTED | AUTHENTICATED
    head = write_packet(Packet(IPMI, session.console_id, session.sent, hidden, protection))
    # From the authentication type on, what is signed has a multiple of four bytes.
    pad = -(len(head) - 4 + 2) % 4
    whole = head + b"\xff" * pad + bytes([pad, NEXT_HEADER])
    return whole + session.suite.code(keys.integrity, whole[4:])[: session.suite.check_bytes]
