"""Starts `offpeak` in a tenth of a second: a process that has imported it once forks for every start.

As a program: python agent_zygote.py SOCKET MODULE...
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PARTS = (
    "ui.command",
    "ui.agent.command",
    "ui.agent.answer",
    "power.agent.agent",
    "power.agent.parts",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What an agent imports. A part that is not named here is imported at each start, which takes longer."""


@dataclass
class Forked:
    """A process that somebody else has forked; it is known by its pidfd, so it is never another one."""

    pid: int
    _fd: int = field(init=False)
    _ended: bool = False

    def __post_init__(self) -> None:
        self._fd = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return 0 when it has ended, whatever it ended with, else None."""
        return 0 if self._has_ended(0.0) else None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """Return 0 when it has ended; subprocess.TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired("offpeak", timeout or 0.0)
        return 0

    def _signal(self, number: int) -> None:
        if not self._ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def _has_ended(self, timeout_s: float | None) -> bool:
        if not self._ended and select.select([self._fd], [], [], timeout_s)[0]:
            self._ended = True
            os.close(self._fd)
        return self._ended


@dataclass(frozen=True)
class AgentZygote:
    """Where it listens."""

    address: Path

    def start(self, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        """Start `offpeak` with these words, as running_agent.Start."""
        request = {"words": list(words), "log": str(log), "environment": dict(environment)}
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.address))
            line.sendall(json.dumps(request).encode() + b"\n")
            # It waits for our word, so that the process is there still when its pidfd is opened.
            forked = Forked(int(line.recv(100)))
            line.sendall(b"\n")
        return forked


@contextmanager
def agent_zygote(folder: Path, parts: Sequence[str] = PARTS) -> Iterator[AgentZygote]:
    """Run one until the block ends. What it has forked and nobody has ended ends with it."""
    from local_server import SEARCH_PATH, end_processes_with, running
    from powered_plan import REPOSITORY

    address = folder / "zygote.sock"
    # What it forks has this environment too, for whoever looks from outside.
    words = {"ZYGOTE": str(address), "PYTHONPATH": str(REPOSITORY), "PATH": SEARCH_PATH, "OPENBLAS_NUM_THREADS": "1"}
    command = (sys.executable, __file__, address, *parts)
    with running(*command, log=folder / "zygote.log", ready=address.is_socket, environment=words):
        yield AgentZygote(address)
    end_processes_with("ZYGOTE", address)


def _serve(address: str, parts: Sequence[str]) -> None:
    for part in parts:
        importlib.import_module(part)
    if threading.active_count() > 1:
        raise RuntimeError(f"a thread would be missing after the fork: {threading.enumerate()}")
    # Nobody asks what became of those that were forked.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{address}.new")
        door.listen()
        Path(f"{address}.new").rename(address)
        while True:
            line, _ = door.accept()
            with line:
                request = json.loads(line.makefile().readline())
                if (pid := os.fork()) == 0:
                    door.close()
                    line.close()
                    _become(request)
                line.sendall(str(pid).encode())
                line.recv(1)


def _become(request: dict[str, Any]) -> None:
    """Be `offpeak`, and end with it."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    os.environ.clear()
    os.environ.update(request["environment"])
    from ui.command import run

    code = 1
    try:
        code = run(request["words"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
