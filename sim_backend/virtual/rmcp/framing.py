"""The layers of a datagram: RMCP, ASF's presence ping, the session headers of IPMI 1.5 and 2.0, and IPMI messages.

A message inside a payload has addresses, function, command and data between two checksums (table 13-8).
"""

import struct
from dataclasses import dataclass

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
    return _read_v20(datagram[4:]) if datagram[4] == RMCP_PLUS else _read_v15(datagram[4:])


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


def _read_v15(session: bytes) -> Packet:
    kind, sequence, session_id, size = HEADER_V15.unpack_from(session)
    payload = session[HEADER_V15.size : HEADER_V15.size + size]
    # Sessions of IPMI 1.5 are not offered, so nothing of theirs is read.
    if kind or session_id or len(payload) != size:
        raise Malformed("a session of IPMI 1.5")
    return Packet(IPMI, session_id, sequence, payload, plus=False)


def _read_v20(session: bytes) -> Packet:
    if len(session) < HEADER_V20.size:
        raise Malformed("ends in its header")
    _, kind, session_id, sequence, size = HEADER_V20.unpack_from(session)
    payload = session[HEADER_V20.size : HEADER_V20.size + size]
    if len(payload) != size:
        raise Malformed("ends in its payload")
    return Packet(kind & 0x3F, session_id, sequence, payload, kind & (ENCRYPTED | AUTHENTICATED))


BMC_ADDRESS = 0x20


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
