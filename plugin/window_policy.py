"""Window policies order the first jobs of the queue. The port for own policies, and the registry of all.

The built-in policies are compiled into the engine and are known to it by `code`; one from outside is Python, registered
in the group of entry points WINDOW_POLICIES, and consulted at each scheduling pass.

For the agent such a policy runs in a process of its own: if it fails, hangs or crashes, the agent goes on. The process
loads the policy by its entry point, as the engine does, and answers through a pipe. It is started for the first
windows, and again after it was killed: the first time at once, then after pauses that double.
"""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from operator import index
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from offpeak.display import duration_text
from offpeak.errors import BadInput, OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.clock import backoff_s
from offpeak.prices.peak import Peak
from offpeak.settings.agent import BUILT_IN_QUEUE_POLICIES, WINDOW_POLICIES
from offpeak.text import counted, did_you_mean, printable

MOST_JOBS = 64
"""The largest window of a knapsack: its kernel packs a set of jobs into 64 bits."""

ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE, EXTERNAL = range(6)

PATIENCE_S = 5.0
"""The time for all windows of one cycle of the queue."""
START_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 600.0
"""The pauses after the second failure in a row, and after many: a restart costs seconds of processor time."""


@dataclass(frozen=True)
class WindowView:
    """The input of a policy at a scheduling pass: the window's jobs in the site's order, as read-only columns.

    Jobs that keep their place are left out; `free` are the units that these leave. `waited_s`, `estimate_s`: seconds.
    `size`, `free`: allocation units. `node_power_w`: draw per unit [W].
    """

    now_s: int
    peak: Peak
    free: int
    job_id: Int64
    size: Int64
    estimate_s: Int64
    waited_s: Int64
    node_power_w: Float64

    def __post_init__(self) -> None:
        for column in (self.job_id, self.size, self.estimate_s, self.waited_s, self.node_power_w):
            column.flags.writeable = False


class OrderWindow(Protocol):
    """A policy in Python: returns the ranks of the window in the order in which they must start."""

    def __call__(self, view: WindowView, /) -> Sequence[int]:
        """Return ranks, each at most once; those left out follow in submission order."""


OrderWindows = Callable[[Sequence[WindowView]], Sequence[Sequence[int]]]
"""Returns the checked ranks of each window of one cycle. Raises OffpeakError if the policy gives none."""


@dataclass(frozen=True)
class WindowPolicy:
    """A policy by name. `order` is set for policies from outside only."""

    name: str
    code: int
    doc: str
    most_jobs: int | None = None
    order: OrderWindow | None = None

    @property
    def weighs_free(self) -> bool:
        """Whether it is a knapsack, which fills the free units."""
        return self.most_jobs is not None


def own_ranks(policy: WindowPolicy, view: WindowView) -> list[int]:
    """Return the checked ranks of a policy from outside. Raises OffpeakError if it fails or returns no order."""
    assert policy.order is not None
    try:
        ranks = policy.order(view)
    except OffpeakError:
        raise
    except SystemExit as problem:
        raise OffpeakError(
            f"the window policy {policy.name!r} has ended the program", hint="it must not end the program that calls it"
        ) from problem
    except Exception as problem:
        at = traceback.extract_tb(problem.__traceback__)[-1]
        text = printable(f"{type(problem).__name__}: {problem}")
        raise OffpeakError(
            f"the window policy {policy.name!r} failed: {text} ({Path(at.filename).name}, line {at.lineno})",
            hint="repair its package; an agent loads it again when it is reloaded",
        ) from problem
    return checked_ranks(policy.name, ranks, len(view.size))


def checked_ranks(name: str, ranks: object, window: int) -> list[int]:
    """Return a policy's answer completed by the ranks left out. Raises OffpeakError if it is no order of the window."""
    try:
        if not isinstance(ranks, Sequence | np.ndarray):
            raise TypeError
        given = [index(rank) for rank in ranks]
    except TypeError as error:
        raise OffpeakError(
            f"the window policy {name!r} returned {printable(repr(ranks))}", hint="it must return ranks of the window"
        ) from error
    if len(set(given)) != len(given) or not all(0 <= rank < window for rank in given):
        raise OffpeakError(
            f"the window policy {name!r} returned {printable(repr(given))},"
            f" which is not an order of {counted(window, 'job')}",
            hint="it must return each rank from 0 to the window's length at most once",
        )
    named = set(given)
    return given + [rank for rank in range(window) if rank not in named]


NO_POLICY = WindowPolicy("", ARRIVAL, "jobs in submission order")

BUILT_IN = (
    WindowPolicy("greedy", GREEDY, "high-power jobs first off-peak, low-power jobs first on-peak"),
    WindowPolicy(
        "knapsack", KNAPSACK, "fill the free nodes, with the most power off-peak, the least on-peak", MOST_JOBS
    ),
    WindowPolicy("greedy-slide", GREEDY_SLIDE, "greedy as the paper's slide prints it, the other way round"),
    WindowPolicy("knapsack-slide", KNAPSACK_SLIDE, "knapsack to the letter: on-peak nothing starts", MOST_JOBS),
)
BUILT_IN_BY_NAME = {policy.name: policy for policy in BUILT_IN}


def window_policies() -> dict[str, WindowPolicy]:
    """Return all policies by name. Raises OffpeakError if one from outside takes a name that is taken."""
    policies = dict(BUILT_IN_BY_NAME)
    for point in entry_points(group=WINDOW_POLICIES):
        if point.name in policies or point.name in BUILT_IN_QUEUE_POLICIES:
            raise OffpeakError(
                f"the window policy {point.name!r} of {point.value} has a name that is taken",
                hint="rename its entry point, or uninstall one of the two",
            )
        policies[point.name] = WindowPolicy(point.name, EXTERNAL, point.value)
    return policies


def window_policy(name: str) -> WindowPolicy:
    """Return the policy of that name, loaded. Raises BadInput if there is none, OffpeakError if it cannot be loaded."""
    policies = window_policies()
    if name not in policies:
        raise BadInput(f"unknown policy {name!r}", hint=did_you_mean(name, tuple(policies)))
    policy = policies[name]
    if policy.code != EXTERNAL:
        return policy
    (point,) = entry_points(group=WINDOW_POLICIES, name=name)
    try:
        return WindowPolicy(name, EXTERNAL, policy.doc, order=point.load())
    except Exception as error:
        raise OffpeakError(
            f"the window policy {name!r} of {point.value} cannot be loaded: {error}",
            hint="uninstall or repair its package",
        ) from error


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
        longest = duration_text(LONGEST_PAUSE_S)
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
