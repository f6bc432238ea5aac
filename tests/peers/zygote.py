"""Starts `offpeak` in a tenth of a second: a process that has imported it once forks for every start.

As a program: python zygote.py SOCKET
"""

import importlib
import json
import os
import pkgutil
import pwd
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMPORTED_LATE = (
    "offpeak.services.agent.agent",
    "offpeak.services.agent.site_context",
    "offpeak.services.page.server",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What commands import while they run. A part that is not known here is imported at each start, which takes longer."""
LONGEST_REQUEST = 1024 * 1024
TYPED = Path(__file__).with_name("zygote_typed.py")


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
class Zygote:
    """Where it listens."""

    address: Path

    @property
    def command(self) -> Path:
        """A program that does what the installed `offpeak` does, with its own files, folder and environment."""
        return self.address.with_name("offpeak")

    def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        """Start `offpeak` with these words, as running_agent.Start."""
        request = {"words": list(arguments), "folder": str(Path.cwd()), "environment": dict(environment)}
        with socket.socket(socket.AF_UNIX) as line, log.open("ab") as output, Path(os.devnull).open() as nothing:
            line.connect(str(self.address))
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(line, [json.dumps(request).encode() + b"\n"], files)
            # The process waits for our word, so that it is there still when its pidfd is opened.
            forked = Forked(int(line.recv(100)))
            line.sendall(b"\n")
        return forked


@contextmanager
def zygote_in(folder: Path) -> Iterator[Zygote]:
    """Run one until the block ends. What it has forked and nobody has ended ends with it."""
    from benchmarks.local_slurm.plan import REPOSITORY
    from benchmarks.local_slurm.processes import end_processes_with, running
    from offpeak.compiled import cache_base

    made = Zygote(folder / "zygote.sock")
    made.command.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {TYPED} {made.address} "$@"\n')
    made.command.chmod(0o755)
    # What it forks has this environment too, for whoever looks from outside.
    arguments = {
        "ZYGOTE": str(made.address),
        "PYTHONPATH": str(REPOSITORY),
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(cache_base()),
    }
    command = (sys.executable, __file__, made.address)
    with running(*command, log=folder / "zygote.log", ready=made.address.is_socket, environment=arguments):
        yield made
    end_processes_with("ZYGOTE", made.address)


def _serve(address: str) -> None:
    _import_all()
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
                request, files = _received(line)
                begins, held_back = os.pipe()
                if (pid := os.fork()) == 0:
                    door.close()
                    os.close(held_back)
                    os.read(begins, 1)
                    os.close(begins)
                    _become(request, files, line)
                for file in (*files, begins):
                    os.close(file)
                line.sendall(str(pid).encode())
                line.recv(1)
                # Not before: of one that has ended there is no pidfd, and its exit code would be taken for its pid.
                os.close(held_back)


def _import_all() -> None:
    import offpeak.ui

    for module in pkgutil.walk_packages(offpeak.ui.__path__, "offpeak.ui."):
        importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    # What numba does when the first kernel is loaded, half a second.
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _received(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    text, files, _, _ = socket.recv_fds(line, LONGEST_REQUEST, 3)
    while not text.endswith(b"\n"):
        text += line.recv(LONGEST_REQUEST)
    return json.loads(text), list(files)


def _become(request: dict[str, Any], files: Sequence[int], line: socket.socket) -> None:
    """Be `offpeak`, say its exit code on the line if anybody is there still, and end with it.

    ZYGOTE_USER in the environment names the user to run as.
    """
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    # numba would begin anew, without our cache, if what it is told by its own variables changed.
    of_numba = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    os.environ.clear()
    os.environ.update(request["environment"] | of_numba)
    time.tzset()
    if user := request["environment"].get("ZYGOTE_USER"):
        known = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(known.pw_gid)
        os.setuid(known.pw_uid)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    sys.argv = ["offpeak", *request["words"]]
    from offpeak.ui.command import main

    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            line.send(str(code).encode(), socket.MSG_NOSIGNAL)
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
