"""Every change of a node's power with its time, and the jobs that were there: the witness of lost jobs."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

TAKES_POWER = frozenset({"soft_off", "hard_off", "off"})


@dataclass(frozen=True)
class PowerEvent:
    """One change; Unix seconds.

    soft_off, hard_off, on: what the BMC was told. off: the power went. booting: it came. up: its slurmd was started.
    by hand: what a test did to the node itself. `jobs` had processes there at that moment.
    """

    at_s: float
    node: str
    what: str
    jobs: tuple[str, ...] = ()


class PowerLog:
    """A file that grows, a line an event."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        file.touch()

    def add(self, node: str, what: str, jobs: tuple[str, ...] = ()) -> None:
        """Write what happens now."""
        with self._lock, self._file.open("a") as log:
            log.write(f"{time.time():.3f}\t{node}\t{what}\t{','.join(jobs)}\n")

    def events(self, *, node: str = "", since_s: float = 0.0) -> tuple[PowerEvent, ...]:
        """Return what has happened, of one node if it is named."""
        every = map(_event, self._file.read_text().splitlines())
        return tuple(each for each in every if each.at_s >= since_s and node in ("", each.node))

    @property
    def sins(self) -> tuple[PowerEvent, ...]:
        """Power that was taken, or ordered to be taken, from under a job."""
        return tuple(each for each in self.events() if each.jobs and each.what in TAKES_POWER)


def _event(line: str) -> PowerEvent:
    at_s, node, what, jobs = line.split("\t")
    return PowerEvent(float(at_s), node, what, tuple(filter(None, jobs.split(","))))
