"""The room's process, seen from outside: it is told things, frozen and ended."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

from benchmarks.soak.plan import SoakPlan
from benchmarks.soak.truth import Truth, truth_of

REPOSITORY = Path(__file__).resolve().parents[2]


class RoomProcess:
    """A running room. All calls wait for it, some milliseconds."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tell(self, at_s: float, faults: Mapping[str, str], use: Mapping[str, float]) -> Truth:
        """Move the clock, say which device has which fault and how much nodes work, and return the truth."""
        cast(IO[str], self._process.stdin).write(json.dumps({"at_s": at_s, "faults": faults, "use": use}) + "\n")
        cast(IO[str], self._process.stdin).flush()
        return truth_of(self.heard())

    def heard(self) -> dict[str, Any]:
        """Return the next line that it says."""
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            raise RuntimeError("the room has ended; what it said is above")
        told: dict[str, Any] = json.loads(line)
        return told

    def freeze(self) -> None:
        """Let all devices hang, with what is sent to them waiting in their sockets."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def room_process(folder: Path, plan: SoakPlan) -> Iterator[RoomProcess]:
    """Run a room until the block ends; its devices listen."""
    command = (sys.executable, "-m", "benchmarks.soak.room", str(folder), json.dumps(asdict(plan)))
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            room = RoomProcess(process)
            room.heard()
            yield room
        finally:
            process.kill()
