"""IPMI messages inside a payload: addresses, function, command and data between two checksums (table 13-8)."""

from dataclasses import dataclass

from sim_backend.virtual.rmcp.framing import Malformed

BMC_ADDRESS = 0x20


@dataclass(frozen=True, slots=True)
class Request:
    """A command: its network function and number, its data, and what makes its answer find the way back."""

    function: int
    command: int
    data: bytes
    asker: int
    lun: int
    sequence_and_lun: int


def read_request(message: bytes) -> Request:
    """Return the request in a payload; Malformed if it is too short, damaged, an answer, or for somebody else."""
    if len(message) < 7 or sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        raise Malformed("checksum")
    function = message[1] >> 2
    if message[0] != BMC_ADDRESS or function & 1:
        raise Malformed("not for the BMC")
    return Request(function, message[5], message[6:-1], message[3], message[1] & 3, message[4])


def write_answer(request: Request, answer: bytes) -> bytes:
    """Return the message that answers a request; `answer` begins with the completion code."""
    head = bytes([request.asker, (request.function | 1) << 2 | request.sequence_and_lun & 3])
    body = bytes([BMC_ADDRESS, request.sequence_and_lun & ~3 | request.lun, request.command]) + answer
    return head + _checksum(head) + body + _checksum(body)


def _checksum(part: bytes) -> bytes:
    return bytes([-sum(part) & 0xFF])
