"""A virtual room as the nodes of a PBS server: one that is up registers; one that goes down takes its jobs with it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from offpeak.model.node_states import ACTIVE
from sim_backend.pbs_standin.pbs import Pbs, new_pbs
from sim_backend.pbs_standin.power_told import RUNNING, SHUTDOWN
from sim_backend.pbs_standin.program import write_programs
from sim_backend.pbs_standin.server import served
from sim_backend.scheduler.sim_node import SimNode
from sim_backend.virtual.live_node import LiveNode
from sim_backend.virtual.machine_room import MachineRoom

LOOK_S = 0.1
CPUS = 8
SOCKET = "pbs.sock"


@asynccontextmanager
async def pbs_of_room(
    kind: str, room: MachineRoom, folder: Path, clock: Callable[[], float] = time.time
) -> AsyncIterator[Pbs]:
    """Run a server over the room's nodes until the block ends; its programs are in `folder`/bin."""
    now_s = int(clock())
    pbs = new_pbs(kind, {name: SimNode(name, CPUS, changed_s=now_s, last_used_s=now_s) for name in room.nodes})
    write_programs(folder, folder / SOCKET)
    async with served(pbs, folder / SOCKET, clock):
        following = asyncio.create_task(_follow(room, pbs, clock))
        try:
            yield pbs
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


async def _follow(room: MachineRoom, pbs: Pbs, clock: Callable[[], float]) -> None:
    while True:
        for name, node in room.nodes.items():
            _do_as_told(node, pbs.cluster.nodes[name])
            up = node.now().state == ACTIVE
            if up != pbs.cluster.nodes[name].alive:
                (pbs.cluster.comes_up if up else pbs.cluster.goes_down)(name, clock())
        await asyncio.sleep(LOOK_S)


def _do_as_told(node: LiveNode, known: SimNode) -> None:
    word, known.told = known.told, ""
    if word == RUNNING:
        node.on()
    elif word == SHUTDOWN:
        node.soft_off()
