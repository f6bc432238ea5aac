"""A virtual machine room in a thread of its own, for clients that block: command-line tools, pyghmi."""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from offpeak.machines.node_sets import expand
from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.machine_room import MachineRoom, machine_room
from offpeak.sim_backend.virtual.node import OPERATOR, USER, BmcUser
from offpeak.sim_backend.virtual.room_plan import PduLogins, RoomLogins, RoomPlan, SnmpUser

USERS = {
    b"admin": BmcUser(b"secret"),
    b"operator": BmcUser(b"opsecret", OPERATOR),
    b"reader": BmcUser(b"readsecret", USER),
}
LOGINS = RoomLogins(
    USERS,
    PduLogins(
        "public",
        (SnmpUser("mon", "SHA", "authpass12", "privpass12"), SnmpUser("mon256", "SHA-256", "authpass12", "privpass12")),
    ),
)

PORTS = itertools.count(6230)

Answer = TypeVar("Answer")


def planned(nodes: str, **changes: Any) -> RoomPlan:
    """Return the plan of a room whose addresses no other room of this machine has."""
    network = f"127.{64 + (os.getpid() >> 8) % 128}.{os.getpid() & 255}"
    plan: dict[str, Any] = {
        "nodes": expand(nodes),
        "node_class": bundled_node_class("server"),
        "bmc_host": f"{network}.1",
        "pdu_host": f"{network}.1",
        "bmc_port": next(PORTS),
        "pdu_port": next(PORTS),
    }
    return RoomPlan(**plan | changes)


@dataclass(frozen=True)
class ServedRoom:
    """A running room; what is done to it is done by `do`, in its own thread."""

    room: MachineRoom
    loop: asyncio.AbstractEventLoop

    @property
    def plan(self) -> RoomPlan:
        """Where its hardware listens."""
        return self.room.plan

    def do(self, act: Callable[[MachineRoom], Answer]) -> Answer:
        """Return what a function of the room says, called between two datagrams."""

        async def acted() -> Answer:
            return act(self.room)

        return asyncio.run_coroutine_threadsafe(acted(), self.loop).result(10)


@contextmanager
def served_room(plan: RoomPlan, logins: RoomLogins = LOGINS) -> Iterator[ServedRoom]:
    """Run a room until the block ends."""
    loop, room = asyncio.new_event_loop(), machine_room(plan, logins)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        entered = asyncio.run_coroutine_threadsafe(room.__aenter__(), loop).result(30)
        try:
            yield ServedRoom(entered, loop)
        finally:
            asyncio.run_coroutine_threadsafe(_left(room), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _left(room: Any) -> None:
    await room.__aexit__(None, None, None)
    # Closed transports and cancelled tasks have their last word in the next rounds of the loop.
    await asyncio.sleep(0.01)
