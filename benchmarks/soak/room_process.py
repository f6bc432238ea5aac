"""The room's two processes, seen from outside: they are told things, frozen and ended."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from benchmarks.soak.plan import SoakPlan
from benchmarks.soak.truth import Truth, truth_of
from offpeak.sim_backend.virtual.room_plan import room_logins

REPOSITORY = Path(__file__).resolve().parents[2]

Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Room:
    """A running room. All calls wait for it, some milliseconds."""

    bmcs: Process
    pdus: Process

    def tell(self, at_s: float, faults: Mapping[str, str], use: Mapping[str, float]) -> Truth:
        """Move the clock, say which device has which fault and how much nodes work, and return the truth."""
        nodes = _sent(self.bmcs, {"at_s": at_s, "faults": faults, "use": use})
        pdus = _sent(self.pdus, {"at_s": at_s, "faults": faults, "states": nodes["states"]})
        return truth_of(nodes | pdus)

    def freeze_bmcs(self) -> None:
        """Let all BMCs hang, with what is sent to them waiting in their sockets."""
        self.bmcs.send_signal(signal.SIGSTOP)

    def thaw_bmcs(self) -> None:
        """Let them go on."""
        self.bmcs.send_signal(signal.SIGCONT)


@contextmanager
def running_room(folder: Path, plan: SoakPlan) -> Iterator[Room]:
    """Run a room until the block ends; its devices listen."""
    # Both processes use these: only one may make them.
    room_logins(folder)
    with _running("bmc_room", folder, plan) as bmcs, _running("pdu_room", folder, plan) as pdus:
        for process in (bmcs, pdus):
            _received(process)
        yield Room(bmcs, pdus)


@contextmanager
def _running(module: str, folder: Path, plan: SoakPlan) -> Iterator[Process]:
    command = (sys.executable, "-m", f"benchmarks.soak.{module}", str(folder), json.dumps(asdict(plan)))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def _sent(process: Process, line: Mapping[str, Any]) -> dict[str, Any]:
    cast(IO[str], process.stdin).write(json.dumps(line) + "\n")
    cast(IO[str], process.stdin).flush()
    return _received(process)


def _received(process: Process) -> dict[str, Any]:
    line = cast(IO[str], process.stdout).readline()
    if not line:
        raise RuntimeError("a part of the room has ended; what it said is above")
    reply: dict[str, Any] = json.loads(line)
    return reply
