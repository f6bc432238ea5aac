"""Polls many devices at once and limits how often the same problem is reported.

A dead device delays no other device, and a BMC that is dead for a week does not fill the disk with log lines.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from offpeak.errors import DeviceError, NoAnswer, unexpected_error
from offpeak.model.constants import DAY_S
from offpeak.model.orders import PowerState
from offpeak.power.drivers.port import PowerDriver, PowerObservation

Result = TypeVar("Result")

FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = DAY_S


async def iterate_completed(
    calls: Mapping[str, Awaitable[Result]], *, timeout_s: float
) -> AsyncIterator[tuple[str, Result | DeviceError]]:
    """Yield each call's name with its result or DeviceError as calls complete, and NoAnswer for calls that run out of
    time.

    All calls run at once. Late calls are cancelled, and so are the remaining ones if the caller stops iterating.
    """
    tasks: dict[asyncio.Future[Result], str] = {asyncio.ensure_future(call): name for name, call in calls.items()}
    ended: asyncio.Queue[asyncio.Future[Result]] = asyncio.Queue()
    for task in tasks:
        task.add_done_callback(ended.put_nowait)
    until_s = asyncio.get_running_loop().time() + timeout_s
    try:
        while tasks and (first := await _next_completed(ended, until_s)) is not None:
            result = _result_of(tasks[first], first)
            yield tasks.pop(first), result
        for name in tasks.values():
            yield name, NoAnswer(f"{name}: no answer within {timeout_s:g} s")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def poll_drivers(
    drivers: Mapping[str, PowerDriver], *, timeout_s: float, clock: Callable[[], float]
) -> dict[str, PowerObservation]:
    """Return the state of every node, UNKNOWN with the error where it did not come in time."""
    seen = {}
    async for node, observed in iterate_completed(
        {node: driver.query() for node, driver in drivers.items()}, timeout_s=timeout_s
    ):
        if isinstance(observed, DeviceError):
            observed = PowerObservation(PowerState.UNKNOWN, clock(), observed)
        seen[node] = observed
    return seen


async def _next_completed(
    ended: "asyncio.Queue[asyncio.Future[Result]]", until_s: float
) -> "asyncio.Future[Result] | None":
    try:
        async with asyncio.timeout_at(until_s):
            return await ended.get()
    except TimeoutError:
        return None


def _result_of(name: str, task: "asyncio.Future[Result]") -> Result | DeviceError:
    try:
        return task.result()
    except DeviceError as problem:
        return problem
    except Exception as problem:
        # Neither the answer of one device, whatever it is, nor a key or a certificate that is gone keeps others back.
        return unexpected_error(name, problem)


@dataclass(frozen=True)
class ReportedProblem:
    """The last reported problem of a device: since when, how often it occurred, and when it is reported again."""

    problem: str
    since_unix_s: float
    times: int
    again_unix_s: float
    pause_s: float


def limit_repeats(
    reported: ReportedProblem | None, problem: str | None, *, at_unix_s: float
) -> tuple[ReportedProblem | None, str | None]:
    """Return what to remember, and the log line or None. `reported` is what the last call returned.

    A new problem is logged at once, the same problem again after a minute, then after twice as long each time up to a
    day. The end of a problem is logged, too.
    """
    if problem is None:
        return (
            None,
            None if reported is None else f"well again after {_repeat_text(reported, at_unix_s)}: {reported.problem}",
        )
    if reported is None or reported.problem != problem:
        return ReportedProblem(problem, at_unix_s, 1, at_unix_s + FIRST_PAUSE_S, FIRST_PAUSE_S), problem
    times = reported.times + 1
    if at_unix_s < reported.again_unix_s:
        return ReportedProblem(problem, reported.since_unix_s, times, reported.again_unix_s, reported.pause_s), None
    pause_s = min(2 * reported.pause_s, LONGEST_PAUSE_S)
    now = ReportedProblem(problem, reported.since_unix_s, times, at_unix_s + pause_s, pause_s)
    return now, f"{problem} ({_repeat_text(now, at_unix_s)})"


def _repeat_text(reported: ReportedProblem, at_unix_s: float) -> str:
    return f"{reported.times} times in {at_unix_s - reported.since_unix_s:,.0f} s"
