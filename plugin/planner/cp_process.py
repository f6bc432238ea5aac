"""The constraint solver in a process of its own: it may be killed, or take too long, and the plan at hand stays."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from plugin.planner.cp_question import Answer, Question
from plugin.planner.cp_solve import solve, warm_up

GRACE_S = 1.0
"""How much longer than it was told the solver may take before it is ended."""


class SolverGone(OffpeakError):
    """The solver's process was killed or ended; what was found before holds."""


@dataclass(frozen=True)
class CpProcess:
    """A solver that is asked through a pipe."""

    process: BaseProcess
    pipe: Connection

    def answer(self, question: Question, seconds: float, seed: int) -> Answer | None:
        """Return the best answer that was found in time, None if there was none. SolverGone."""
        try:
            self.pipe.send((question, seconds, seed))
            if not self.pipe.poll(seconds + GRACE_S):
                raise SolverGone(f"the solver did not answer within {seconds:.1f} s", hint="give it more time")
            answer: Answer | None = self.pipe.recv()
        except (EOFError, OSError):
            hint = "look for the out-of-memory killer in the kernel's log"
            raise SolverGone("the solver's process has ended", hint=hint) from None
        return answer


def need_or_tools() -> None:
    """Raise BadInput without OR-tools: what a search began with is not passed off as its answer."""
    if find_spec("ortools") is None:
        raise missing_extra("a search by constraint programming", "planner", "OR-tools")


@contextmanager
def cp_process(start_s: float) -> Iterator[CpProcess]:
    """Start the solver's process and end it afterwards. SolverGone if it is not ready within so many seconds.

    BadInput without OR-tools.
    """
    need_or_tools()
    # A fresh process: one that is forked may inherit a lock of numba's threads.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(start_s):
            raise SolverGone(f"the solver was not ready within {start_s:.1f} s", hint="give it more time")
        _heard(ours)
        yield CpProcess(process, ours)
    finally:
        ours.close()
        process.kill()
        process.join()


def _heard(pipe: Connection) -> None:
    try:
        pipe.recv()
    except (EOFError, OSError):
        raise SolverGone("the solver's process did not start", hint="try `python -c 'import ortools'`") from None


def _serve(pipe: Connection) -> None:
    warm_up()
    pipe.send(None)
    while True:
        try:
            asked = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(solve(*asked))
