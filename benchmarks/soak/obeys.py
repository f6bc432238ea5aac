"""How a process of the room obeys: a line of JSON comes in, it does what that says, a line of JSON goes out."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from benchmarks.soak.plan import SoakPlan
from offpeak.sim_backend.virtual.room_plan import RoomLogins, room_logins


class SwitchableDevices(Protocol):
    """Devices that listen, and do what they are told."""

    async def listen(self, open_ends: AsyncExitStack) -> None:
        """Let all devices listen until `open_ends` are closed."""

    def obey(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a line says and return what there is to say."""


def obey_lines(make: Callable[[SoakPlan, RoomLogins], SwitchableDevices]) -> None:
    """Run the devices of the plan in argv, with the logins in that folder, until there are no more lines."""
    asyncio.run(_obey(make(SoakPlan(**json.loads(sys.argv[2])), room_logins(Path(sys.argv[1])))))


async def _obey(devices: SwitchableDevices) -> None:
    async with AsyncExitStack() as open_ends:
        await devices.listen(open_ends)
        print("{}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(devices.obey(json.loads(line))), flush=True)
