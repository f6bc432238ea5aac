"""The processes that live on one node of a cluster whose nodes all are this machine: its slurmd, and its jobs."""

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from local_server import wait_until

SIGN = "POWERED_NODE"
"""In the environment of a node's slurmd, and by that of the slurmstepd that it starts."""

_JOB = re.compile(rb"\[(\d+)\.")


@dataclass(frozen=True)
class NodeProcesses:
    """How they are told from those of other nodes and clusters. `spool` is the node's SlurmdSpoolDir."""

    name: str
    conf: Path
    spool: Path

    @property
    def environment(self) -> dict[str, str]:
        """What the node's slurmd is to be started with."""
        return {"SLURM_CONF": str(self.conf), SIGN: str(self.spool)}

    def draw_w(self, *, idle_w: float, busy_w: float) -> float:
        """Return what the node draws: `busy_w` while a job is there, if the job says nothing else."""
        if not self._steps():
            (self.spool / "watts").unlink(missing_ok=True)
            return idle_w
        with suppress(FileNotFoundError, ValueError):
            return float((self.spool / "watts").read_text())
        return busy_w

    def jobs(self) -> tuple[str, ...]:
        """Return the jobs that have a slurmstepd here."""
        titles = (_read(pid, "cmdline") for pid in self._all())
        found = {match[1].decode() for title in titles if b"slurmstepd" in title and (match := _JOB.search(title))}
        return tuple(sorted(found, key=int))

    def kill(self) -> None:
        """End all of them at once, as if their power went."""
        wait_until(lambda: not self._kill_all(), what=f"the processes of {self.name} to end")
        for step in self._steps():
            (self.spool / step).unlink(missing_ok=True)

    def _steps(self) -> list[str]:
        """Return the sockets at which every slurmstepd listens."""
        with suppress(FileNotFoundError):
            return [name for name in os.listdir(self.spool) if name.startswith(f"{self.name}_")]  # noqa: PTH208
        return []

    def _kill_all(self) -> list[int]:
        found = self._all()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def _all(self) -> list[int]:
        daemons = f"{SIGN}={self.spool}".encode()
        # What a job runs has its user's environment and Slurm's words.
        tasks = {f"SLURMD_NODENAME={self.name}".encode(), f"SLURM_CONF={self.conf}".encode()}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            words = set(_read(int(folder.name), "environ").split(b"\0"))
            if daemons in words or tasks <= words:
                found.append(int(folder.name))
        return found


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
