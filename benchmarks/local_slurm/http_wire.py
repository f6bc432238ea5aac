"""The connections between a head node and a Redfish BMC: they note each order as it passes, and may lose it."""

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from benchmarks.local_slurm.wire import Wire, WireOrder
from offpeak.model.clock import boot_s

ORDERS = {"On": "on", "GracefulShutdown": "soft_off", "ForceOff": "hard_off"}
LONGEST_S = 60.0
"""After this time a connection to a BMC that does not answer ends."""


class _Clients:
    """The connections of the clients: those whose next request is awaited, and how many requests are on the way."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.idle = set[socket.socket]()
        self.on_the_way = 0

    def settle(self) -> None:
        """Return when all requests that were sent have passed; their answers may still be missing."""
        while True:
            with self.turn:
                if not self.on_the_way and not (self.idle and select.select(self.idle, [], [], 0.0)[0]):
                    return
            time.sleep(0.002)


@contextmanager
def http_wire(node: str, bmc: tuple[str, int]) -> Iterator[tuple[Wire, int]]:
    """Give the wire and its port, at which it passes requests on to the BMC, and answers back, until the block ends."""
    clients = _Clients()
    made = Wire(node, settle=clients.settle)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = (made, clients, listener, bmc)
        threading.Thread(target=_accept, args=arguments, daemon=True, name=f"wire to {node}").start()
        try:
            yield made, listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(made: Wire, clients: _Clients, listener: socket.socket, bmc: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            with clients.turn:
                clients.idle.add(client)
                made.sockets, made.threads = made.sockets + 2, made.threads + 1
            threading.Thread(target=_serve, args=(made, clients, client, bmc), daemon=True).start()


def _serve(made: Wire, clients: _Clients, client: socket.socket, bmc: tuple[str, int]) -> None:
    try:
        with suppress(OSError), socket.create_connection(bmc, timeout=LONGEST_S) as back:
            from_client, from_bmc = client.makefile("rb"), back.makefile("rb")
            while from_client.peek(1):
                with clients.turn:
                    clients.idle.discard(client)
                    clients.on_the_way += 1
                try:
                    passes = _pass_on(made, _message(from_client), back)
                finally:
                    with clients.turn:
                        clients.on_the_way -= 1
                if not passes:
                    return
                client.sendall(_message(from_bmc))
                with clients.turn:
                    clients.idle.add(client)
    finally:
        with clients.turn:
            clients.idle.discard(client)
            made.sockets, made.threads = made.sockets - 2, made.threads - 1
        client.close()


def _pass_on(made: Wire, request: bytes, back: socket.socket) -> bool:
    """Note the request if it is an order, and pass it on unless it is lost; return whether it has passed."""
    if order := _order_of(request):
        made.orders.append(WireOrder(boot_s(), f"{order} {made.node}"))
        made.before_order()
        if not made.copies_s:
            return False
    back.sendall(request)
    return True


def _message(stream: IO[bytes]) -> bytes:
    """Return the next request or answer as a whole, b"" at the end of the connection."""
    head, length = b"", 0
    while line := stream.readline():
        head += line
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
        if line == b"\r\n":
            return head + stream.read(length)
    return b""


def _order_of(request: bytes) -> str:
    head, _, body = request.partition(b"\r\n\r\n")
    if not head.startswith(b"POST ") or b"ComputerSystem.Reset" not in head.partition(b"\r\n")[0]:
        return ""
    return ORDERS.get(json.loads(body).get("ResetType"), "unknown")
