"""A virtual machine room on loopback: nodes of a class, a BMC each, and PDUs with the nodes on their outlets.

It runs beside other code, or in the foreground until a user presses Ctrl-C or ends the process.
"""

import asyncio
import errno
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass

from offpeak.errors import BadInput
from sim_backend.virtual.node import BmcUser, Clock, LiveNode, VirtualBmc, VirtualNode, clock_of
from sim_backend.virtual.pdu import VirtualPdu
from sim_backend.virtual.rmcp.server import serve
from sim_backend.virtual.room_plan import OUTLETS, RoomLogins, RoomPlan
from sim_backend.virtual.snmp_agent import SnmpAgent

LISTEN_HINTS = {
    errno.EACCES: "ports below 1024 are for root: choose one above",
    errno.EADDRINUSE: "another room is running there; choose another address or port",
    errno.EMFILE: "each node takes a file: `ulimit -n 4096` allows more",
}


@dataclass(frozen=True)
class MachineRoom:
    """A running room: nodes, and the BMC of each, by node; PDUs by their names, rack1, rack2 and so on."""

    plan: RoomPlan
    nodes: Mapping[str, LiveNode]
    bmcs: Mapping[str, VirtualBmc]
    pdus: Mapping[str, VirtualPdu]


@asynccontextmanager
async def machine_room(plan: RoomPlan, logins: RoomLogins) -> AsyncIterator[MachineRoom]:
    """Run a room until the block ends. Raises BadInput if an address cannot be had."""
    room = build_room(plan, logins.bmc)
    async with AsyncExitStack() as open_ends:
        for host, bmc in zip(plan.bmc_hosts, room.bmcs.values(), strict=True):
            with _listening(host, plan.bmc_port):
                open_ends.callback((await serve(bmc, host, plan.bmc_port)).close)
        for host, pdu in zip(plan.pdu_hosts, room.pdus.values(), strict=True):
            agent = SnmpAgent(pdu, logins.pdu)
            open_ends.callback(agent.close)
            with _listening(host, plan.pdu_port):
                await agent.start(host, plan.pdu_port)
        yield room


def build_room(plan: RoomPlan, users: Mapping[bytes, BmcUser]) -> MachineRoom:
    """Return a room that does not listen anywhere yet."""
    clock, chance = clock_of(plan.clock_factor), random.Random(plan.seed)
    nodes = {name: LiveNode(name, clock, chance, VirtualNode(plan.node_class)) for name in plan.nodes}
    bmcs = {name: VirtualBmc(node, users) for name, node in nodes.items()}
    pdus = {f"rack{number}": _pdu(plan, number, nodes, clock) for number in range(1, len(plan.racks) + 1)}
    return MachineRoom(plan, nodes, bmcs, pdus)


def _pdu(plan: RoomPlan, number: int, nodes: Mapping[str, LiveNode], clock: Clock) -> VirtualPdu:
    rack = dict(enumerate(plan.racks[number - 1], 1))
    outlets = {outlet: nodes[rack[outlet]] if outlet in rack else None for outlet in range(1, OUTLETS + 1)}
    return VirtualPdu(f"rack{number}", clock, outlets, plan.loss_factor)


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        hint = LISTEN_HINTS.get(problem.errno or 0, "choose another address or port")
        raise BadInput(f"{host} port {port}: cannot listen: {problem.strerror}", hint=hint) from None


Beside = Callable[[MachineRoom], AbstractAsyncContextManager[object]]
"""A task that runs as long as the room."""


def run_room(plan: RoomPlan, logins: RoomLogins, *, ready: Callable[[], None], beside: Beside | None = None) -> None:
    """Run the room, and call `ready` once all devices listen. Raises BadInput like `machine_room`."""
    asyncio.run(_run(plan, logins, ready, beside))


async def _run(plan: RoomPlan, logins: RoomLogins, ready: Callable[[], None], beside: Beside | None) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with machine_room(plan, logins) as room, beside(room) if beside else nullcontext():
        ready()
        await ended.wait()
