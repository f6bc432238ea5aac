"""Asking many devices at once, where those that are dead hold nobody up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

from offpeak.errors import DeviceError, NoAnswer
from power.drivers.port import Observed, PowerDriver, PowerState

Result = TypeVar("Result")


async def as_they_come(
    calls: Mapping[str, Awaitable[Result]], *, timeout_s: float
) -> AsyncIterator[tuple[str, Result | DeviceError]]:
    """Give each call's name with its result or DeviceError, as soon as it is there; NoAnswer for those out of time.

    All run at once. Those that are late, or not waited for any longer, are cancelled.
    """
    tasks: dict[asyncio.Future[Result], str] = {asyncio.ensure_future(call): name for name, call in calls.items()}
    ended: asyncio.Queue[asyncio.Future[Result]] = asyncio.Queue()
    for task in tasks:
        task.add_done_callback(ended.put_nowait)
    until_s = asyncio.get_running_loop().time() + timeout_s
    try:
        while tasks and (first := await _next(ended, until_s)) is not None:
            result = _result(first)
            yield tasks.pop(first), result
        for name in tasks.values():
            yield name, NoAnswer(f"{name}: no answer within {timeout_s:g} s")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def sweep(
    drivers: Mapping[str, PowerDriver], *, timeout_s: float, clock: Callable[[], float]
) -> dict[str, Observed]:
    """Return the state of every node, UNKNOWN with the trouble where it did not come in time."""
    seen = {}
    async for node, observed in as_they_come(
        {node: driver.query() for node, driver in drivers.items()}, timeout_s=timeout_s
    ):
        if isinstance(observed, DeviceError):
            observed = Observed(PowerState.UNKNOWN, clock(), observed)
        seen[node] = observed
    return seen


async def _next(ended: "asyncio.Queue[asyncio.Future[Result]]", until_s: float) -> "asyncio.Future[Result] | None":
    try:
        async with asyncio.timeout_at(until_s):
            return await ended.get()
    except TimeoutError:
        return None


def _result(task: "asyncio.Future[Result]") -> Result | DeviceError:
    try:
        return task.result()
    except DeviceError as trouble:
        return trouble
