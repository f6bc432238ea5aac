"""A wall clock for an agent that a test can step, while Slurm, the nodes and the test keep the machine's."""

import mmap
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.local_slurm.agent import Process
from benchmarks.local_slurm.processes import start_server

PROGRAM = """\
import mmap, os, struct, time
with open(os.environ["CLOCK_OFFSET"], "rb") as file:
    offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
machine_s = time.time
time.time = lambda: machine_s() + struct.unpack("d", offset)[0]
from offpeak.ui.command import main
main()
"""


class SteppedClock:
    """The clock of the agents that `start` starts: the machine's, and the sum of all steps. The file holds that sum."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._offset = mmap.mmap(opened.fileno(), 8)
        self._file = file

    @property
    def unix_s(self) -> float:
        """What it shows [Unix s]."""
        (ahead_s,) = struct.unpack("d", self._offset)
        return time.time() + float(ahead_s)

    def step(self, seconds: float) -> None:
        """Set it forward, or back if the seconds are below 0."""
        struct.pack_into("d", self._offset, 0, self.unix_s - time.time() + seconds)

    def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
        """Start `offpeak` with this clock, as benchmarks.local_slurm.agent.Start."""
        command = (sys.executable, "-c", PROGRAM, *arguments)
        return start_server(command, log, {**environment, "CLOCK_OFFSET": str(self._file)})
