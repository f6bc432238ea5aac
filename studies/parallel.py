"""Runs many independent tasks, in this process or in several, and hears Ctrl-C in between."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from offpeak.errors import OffpeakError

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def run_all(
    function: Callable[[Task], Answer], tasks: Sequence[Task], processes: int, done: Callable[[Task, Answer], None]
) -> None:
    """Call `function` on each task, in so many processes, and `done` here with each answer as it comes.

    Ctrl-C ends it after the tasks that are under way. OffpeakError if a process was killed.
    """
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            done(task, function(task))
        return
    # Fresh processes: one that is forked may inherit a lock of numba's or pyarrow's threads.
    pool = ProcessPoolExecutor(min(processes, len(tasks)), mp_context=get_context("spawn"))
    try:
        with _ctrl_c_ignored():
            futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            done(futures[future], future.result())
    except BrokenProcessPool as problem:
        hint = "start it again, it goes on where it stopped; fewer --processes need less memory"
        raise OffpeakError("a process of the study was killed", hint=hint) from problem
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Let processes that start meanwhile inherit deafness to Ctrl-C, which reaches the whole group: one hears it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
