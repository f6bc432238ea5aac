"""Runs a virtual room in the foreground, until somebody presses Ctrl-C or ends the process."""

import asyncio
import signal
from collections.abc import Callable

from sim_backend.virtual.logins import RoomLogins
from sim_backend.virtual.machine_room import machine_room
from sim_backend.virtual.room_plan import RoomPlan


def run_room(plan: RoomPlan, logins: RoomLogins, *, ready: Callable[[], None]) -> None:
    """Run the room, and call `ready` once everything listens; BadInput as `machine_room`."""
    asyncio.run(_run(plan, logins, ready))


async def _run(plan: RoomPlan, logins: RoomLogins, ready: Callable[[], None]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with machine_room(plan, logins):
        ready()
        await ended.wait()
