"""Runs a virtual room in the foreground, until somebody presses Ctrl-C or ends the process."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from sim_backend.virtual.logins import RoomLogins
from sim_backend.virtual.machine_room import MachineRoom, machine_room
from sim_backend.virtual.room_plan import RoomPlan

Beside = Callable[[MachineRoom], AbstractAsyncContextManager[object]]
"""What runs beside a room as long as that does."""


def run_room(plan: RoomPlan, logins: RoomLogins, *, ready: Callable[[], None], beside: Beside | None = None) -> None:
    """Run the room, and call `ready` once everything listens; BadInput as `machine_room`."""
    asyncio.run(_run(plan, logins, ready, beside))


async def _run(plan: RoomPlan, logins: RoomLogins, ready: Callable[[], None], beside: Beside | None) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with machine_room(plan, logins) as room, beside(room) if beside else nullcontext():
        ready()
        await ended.wait()
