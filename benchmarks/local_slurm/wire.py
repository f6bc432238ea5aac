"""The wire between a head node and a BMC: it notes each order as it passes, and loses, doubles or delays it.

It knows the password of the BMC, so that it can read the encrypted messages of IPMI 2.0 with cipher suite 3. It sees
what is sent, whatever the sender and the BMC make of it. Only ipmitool's sessions it does not read: by these Slurm's
resume program wakes nodes that no agent wakes.
"""

import hmac
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from offpeak.model.clock import boot_s

ORDERS = {
    b"\x00\x02\x00": "hard_off",
    b"\x00\x02\x01": "on",
    b"\x00\x02\x02": "cycle",
    b"\x00\x02\x03": "reset",
    b"\x00\x02\x05": "soft_off",
    b"\x2c\x05\xdc\x00": "uncap",
    b"\x2c\x05\xdc\x01": "cap",
}
"""How a message begins: network function, command and data (IPMI v2.0, 28.3; DCMI v1.5, 6.6.4)."""

RMCP_PLUS, ENCRYPTED = 6, 0x80
OPENED, RAKP_1, RAKP_2, MESSAGE = 0x11, 0x12, 0x13, 0x00
"""Authentication type of IPMI 2.0, and its kinds of payload (IPMI v2.0, tables 13-8 and 13-16)."""

IPMITOOL = bytes.fromhex("a4a3a2a0")
"""The number that ipmitool gives each of its sessions; pyghmi's are random."""

NOW_S = 0.0
MARK = b"settled?"
"""The wire answers it itself, after all that came before."""
MOST_CLIENTS = 4
"""A client is a socket: one for all sessions of an agent, and one for each look whether the BMC is there."""


@dataclass(frozen=True)
class WireOrder:
    """An order that a head node has sent, as `on node1`, by the clock `boot_s`."""

    at_s: float
    text: str


@dataclass
class Wire:
    """Where the head node has to go to reach the BMC of `node`, and the orders that it has sent.

    An order arrives once after each of `copies_s`: () loses it. `before_order` is called before it is passed on.
    `settle` returns when all that was sent until now has passed. `sockets` and `threads` are what the wire itself holds
    in this process for its clients.
    """

    node: str
    copies_s: tuple[float, ...] = (NOW_S,)
    before_order: Callable[[], object] = bool
    orders: list[WireOrder] = field(default_factory=list)
    settle: Callable[[], object] = bool
    sockets: int = 0
    threads: int = 0


@contextmanager
def wire(node: str, bmc: tuple[str, int], port: int, password: str) -> Iterator[Wire]:
    """Listen at a port of the address of the BMC, and pass all on to it and back until the block ends."""
    with socket.socket(type=socket.SOCK_DGRAM) as front, socket.socket(type=socket.SOCK_DGRAM) as ender:
        front.bind((bmc[0], port))
        ender.bind(("127.0.0.1", 0))
        made = Wire(node, settle=partial(_settle, front.getsockname()))
        thread = threading.Thread(target=_pass_on, args=(made, front, ender, bmc, password), name=f"wire to {node}")
        thread.start()
        try:
            yield made
        finally:
            ender.sendto(b"end", ender.getsockname())
            thread.join()


def _pass_on(made: Wire, front: socket.socket, ender: socket.socket, bmc: tuple[str, int], password: str) -> None:
    to_bmc: dict[tuple[str, int], socket.socket] = {}
    reader = SessionReader(password)
    while True:
        ready, _, _ = select.select([front, ender, *to_bmc.values()], [], [])
        if front in ready:
            packet, client = front.recvfrom(2000)
            at_s = boot_s()
            if packet == MARK:
                front.sendto(packet, client)
                continue
            back = to_bmc.pop(client, None)
            if back is None:
                back = socket.socket(type=socket.SOCK_DGRAM)
                back.connect(bmc)
                if len(to_bmc) >= MOST_CLIENTS:
                    to_bmc.pop(next(iter(to_bmc))).close()
            # The last one has sent last.
            to_bmc[client] = back
            made.sockets = len(to_bmc)
            message = reader.message(packet)
            copies_s: tuple[float, ...] = (NOW_S,)
            if order := next((order for begin, order in ORDERS.items() if message.startswith(begin)), ""):
                made.orders.append(WireOrder(at_s, f"{order} {made.node}"))
                made.before_order()
                copies_s = made.copies_s
            for delay_s in copies_s:
                _deliver(back, packet, delay_s)
        for client, back in to_bmc.items():
            if back in ready:
                # A BMC that has ended refuses what was sent to it.
                with suppress(OSError):
                    packet = back.recv(2000)
                    reader.note_answer(packet)
                    front.sendto(packet, client)
        if ender in ready:
            break
    for back in to_bmc.values():
        back.close()


def _settle(address: tuple[str, int]) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        probe.sendall(MARK)
        probe.recv(100)


def _deliver(back: socket.socket, packet: bytes, delay_s: float) -> None:
    if delay_s > NOW_S:
        threading.Timer(delay_s, _deliver, (back, packet, NOW_S)).start()
    else:
        with suppress(OSError):
            back.sendall(packet)


class SessionReader:
    """Reads the messages of the sessions whose logins it has seen."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._bmc_ids: dict[bytes, bytes] = {}
        self._logins: dict[bytes, bytes] = {}
        self._keys: dict[bytes, bytes] = {}

    def message(self, packet: bytes) -> bytes:
        """Return network function, command and data of what a client sends, nothing if it is no message."""
        kind, payload = _payload(packet)
        if kind == RAKP_1:
            self._logins[payload[4:8]] = payload
        if kind != MESSAGE or not packet[5] & ENCRYPTED or packet[6:10] not in self._keys:
            return b""
        decryptor = Cipher(AES(self._keys[packet[6:10]]), CBC(payload[:16])).decryptor()
        padded = decryptor.update(payload[16:]) + decryptor.finalize()
        text = padded[: -1 - padded[-1]]
        return bytes([text[1] >> 2, text[5]]) + text[6:-1]

    def note_answer(self, packet: bytes) -> None:
        """Note what a BMC answers to a login (IPMI v2.0, 13.31 and 13.32)."""
        kind, payload = _payload(packet)
        if kind == OPENED and payload[4:8] != IPMITOOL:
            self._bmc_ids[payload[4:8]] = payload[8:12]
        if kind == RAKP_2 and (number := self._bmc_ids.get(payload[4:8], b"")) in self._logins:
            login = self._logins[number]
            session_key = _sha1(self._password, login[8:24] + payload[8:24] + login[24:25] + login[27:])
            self._keys[number] = _sha1(session_key, b"\x02" * 20)[:16]


def _payload(packet: bytes) -> tuple[int, bytes]:
    if len(packet) < 16 or packet[4] != RMCP_PLUS:
        return -1, b""
    return packet[5] & 0x3F, packet[16 : 16 + int.from_bytes(packet[14:16], "little")]


def _sha1(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha1")
