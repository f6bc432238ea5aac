"""Runs a window policy from outside in a process of its own: if it fails, hangs or crashes, the agent goes on.

The process loads the policy by its entry point, as the engine does, and answers through a pipe. It is started for the
first windows, and again after it was killed: the first time at once, then after pauses that double.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from offpeak.errors import OffpeakError
from offpeak.model.clock import backoff_s
from plugin.window_policy import WindowPolicy, WindowView, own_ranks, window_policy

PATIENCE_S = 5.0
"""The time for all windows of one cycle of the queue."""
START_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 600.0
"""The pauses after the second failure in a row, and after many: a restart costs seconds of processor time."""


class PolicyFailed(OffpeakError):
    """A window policy from outside gave no order."""


class PolicyProcess:
    """A window policy from outside by name, in a process that is killed if it does not answer in time."""

    def __init__(
        self,
        name: str,
        *,
        patience_s: float = PATIENCE_S,
        start_s: float = START_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self._patience_s, self._start_s, self._clock = name, patience_s, start_s, clock
        self._failures, self._again_s, self._failure, self._hint = 0, clock(), "", ""
        self._running: tuple[BaseProcess, Connection] | None = None
        self._turn = threading.Lock()

    def order(self, views: Sequence[WindowView]) -> list[list[int]]:
        """Return the order of each window as ranks. Raises PolicyFailed if there is none in time, or in a pause."""
        with self._turn:
            if self._clock() < self._again_s:
                raise PolicyFailed(self._failure, hint=self._hint)
            try:
                answer = self._ask(views)
            except PolicyFailed as problem:
                raise self._pause_after(problem) from None
            self._failures = 0
        if isinstance(answer, OffpeakError):
            raise answer
        ranks: list[list[int]] = answer
        return ranks

    def _ask(self, views: Sequence[WindowView]) -> Any:
        pipe = self._connect()
        try:
            pipe.send(views)
        except OSError:
            raise self._ended() from None
        return self._receive(pipe, self._patience_s)

    def _pause_after(self, problem: PolicyFailed) -> PolicyFailed:
        """Return the problem that is reported until the pause has ended; one failure may be an accident."""
        self._failures += 1
        if self._failures == 1:
            return problem
        pause_s = backoff_s(self._failures - 1, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        self._again_s = self._clock() + pause_s
        # The text is the same in each pause: it is logged as one problem.
        longest = f"{LONGEST_PAUSE_S / 60:.0f} min"
        self._failure = f"{problem}; it has failed repeatedly, so it is asked again after pauses of up to {longest}"
        self._hint = problem.hint
        return PolicyFailed(self._failure, hint=self._hint)

    def check(self) -> None:
        """Raise PolicyFailed if the policy cannot be loaded."""
        with self._turn:
            self._connect()

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            process, pipe = self._running
            self._running = None
            process.kill()
            process.join()
            pipe.close()

    def _connect(self) -> Connection:
        if self._running is not None:
            return self._running[1]
        # A fresh process: one that is forked may inherit a lock of another thread.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.name, self._patience_s), daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours
        problem = self._receive(ours, self._start_s)
        if problem is not None:
            self.close()
            raise problem
        return ours

    def _receive(self, pipe: Connection, seconds: float) -> Any:
        try:
            if pipe.poll(seconds):
                return pipe.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        self.close()
        raise PolicyFailed(
            f"the window policy {self.name!r} did not answer within {seconds:g} s",
            hint="make it faster: it answers for all windows of a cycle together",
        )

    def _ended(self) -> PolicyFailed:
        self.close()
        return PolicyFailed(
            f"the process of the window policy {self.name!r} has ended",
            hint="it must not end the program that calls it",
        )


def _serve(pipe: Connection, name: str, patience_s: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own_pid = os.getpid()
    try:
        policy = window_policy(name)
    except OffpeakError as problem:
        pipe.send(PolicyFailed(str(problem), hint=problem.hint))
        return
    pipe.send(None)
    while True:
        try:
            views = pipe.recv()
        except (EOFError, OSError):
            return
        # A policy that hangs ends even if the agent was killed meanwhile.
        signal.setitimer(signal.ITIMER_REAL, 2 * patience_s)
        answer = _answer(policy, views)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if os.getpid() != own_pid:
            # A policy that forks returns twice; a second answer would be taken for that of the next windows.
            os._exit(0)
        pipe.send(answer)


def _answer(policy: WindowPolicy, views: Sequence[WindowView]) -> list[list[int]] | PolicyFailed:
    try:
        # Copies: the columns of a view are writeable after their way through the pipe.
        return [own_ranks(policy, replace(view)) for view in views]
    except OffpeakError as problem:
        return PolicyFailed(str(problem), hint=problem.hint)
