"""Runs a simulation in a process of its own: the compiled engine and its memory do not stay in the agent.

The process gets a pickled request on its standard input, answers with the pickled result, and ends.
"""

import asyncio
import pickle
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from offpeak.errors import OffpeakError
from offpeak.model.constants import MINUTE_S
from offpeak.plugin.federation.site_report import ExpectedWaits
from offpeak.plugin.scheduler.port import SchedulerTraits, SchedulerView

LONGEST_S = 10 * MINUTE_S
"""A process that takes longer is killed. The first one may compile the engine; a simulation takes seconds."""
COMMAND = (sys.executable, "-P", "-m", __name__)


class SimulationFailed(OffpeakError):
    """The process gave no answer."""


async def simulate_apart(view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> ExpectedWaits:
    """Return the waits of further jobs as `simulate_waits` does. Raises as `call_in_process`."""
    terms = {"shared": traits.shared_nodes, "partitions": traits.partitions, "limits": traits.limits}
    function = "offpeak.power.expected_waits:simulate_waits"
    waits: ExpectedWaits = await call_in_process(function, (view, dict(run_s)), terms, result="waits")
    return waits


async def call_in_process(function: str, arguments: tuple[Any, ...], named: Mapping[str, Any], *, result: str) -> Any:
    """Return what `function`, written module:name, returns for these arguments. If cancelled, it ends the process.

    Raises the function's OffpeakError, SimulationFailed if the process failed or took too long.
    """
    request = await asyncio.to_thread(pickle.dumps, (function, arguments, named))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe)
    try:
        async with asyncio.timeout(LONGEST_S):
            text, _ = await process.communicate(request)
    except TimeoutError:
        raise SimulationFailed(f"the simulation did not end within {LONGEST_S // MINUTE_S} min") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or not text:
        status = process.returncode
        raise SimulationFailed(f"the process of the simulation ended without {result}, with status {status}")
    answer = pickle.loads(text)
    if isinstance(answer, OffpeakError):
        raise answer
    return answer


def main() -> None:
    """Answer one request."""
    # It ends by itself even if the agent was killed, and Ctrl-C is for the agent, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(LONGEST_S)
    function, arguments, named = pickle.load(sys.stdin.buffer)
    module, _, name = function.partition(":")
    try:
        answer = getattr(import_module(module), name)(*arguments, **named)
    except OffpeakError as problem:
        answer = problem
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
