"""Asking a source for so long and no longer, whatever it or its library does."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.port import Answer, Source, Window

LEFT_BEHIND = 3
"""A source that still has so many questions open, all of them given up, is not asked another one."""

Result = TypeVar("Result")


async def fetched(fetch: Callable[[], Result]) -> Result:
    """Return what `fetch` returns, which runs in a daemon thread of its own.

    Cancelled, it leaves the thread behind: neither the program's end nor another thread waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def finish(result: Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = fetch()
        except BaseException as problem:
            error = problem
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, result, error)

    Thread(target=run, daemon=True, name="fetch").start()
    return await done


def fetch_within(source: Source, window: Window, limit_s: float) -> Answer:
    """Return the source's answer, or HANGING after `limit_s`; then it is left behind and ends by itself."""
    name = f"feed {source.name}"
    if sum(thread.name == name for thread in threading.enumerate()) >= LEFT_BEHIND:
        return Trouble(Condition.HANGING, source.name, f"{LEFT_BEHIND} questions are still open")
    answers: SimpleQueue[Answer] = SimpleQueue()
    # A daemon, because nobody must wait for a hanging library when the program ends.
    Thread(target=_fetch, args=(source, window, answers), daemon=True, name=name).start()
    try:
        return answers.get(timeout=limit_s)
    except Empty:
        return Trouble(Condition.HANGING, source.name, f"nothing after {limit_s:g} s")


def _fetch(source: Source, window: Window, answers: SimpleQueue[Answer]) -> None:
    try:
        answers.put(source.fetch(window))
    except Exception as error:
        # Others' libraries raise anything; what they say may hold a key.
        answers.put(Trouble(Condition.GARBAGE, source.name, f"failed with {type(error).__name__}"))
