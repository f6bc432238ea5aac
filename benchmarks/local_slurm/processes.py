"""Server processes of this machine: start one for the length of a `with`, wait for it, stop it by its process id."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

OFFPEAK = (sys.executable, "-c", "from offpeak.ui.command import main; main()")

# Daemons live in folders that an ordinary user's PATH may lack.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
ME = pwd.getpwuid(os.getuid()).pw_name

START_S = 300.0
STOP_S = 120.0


@contextmanager
def running(
    *command: str | Path, log: Path, ready: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server until the block ends; RuntimeError with the end of its log if it does not become ready."""
    server = start_server(command, log, environment or {})
    try:
        wait_until(lambda: ready() or server.poll() is not None, what=f"{command[0]} to be ready", log=log)
        if server.poll() is not None:
            raise RuntimeError(f"{command[0]} ended with {server.returncode}: {_end_of(log)}")
        yield server
    finally:
        _stop(server)


def run_once(*command: str | Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command that prepares a server to its end; RuntimeError with the end of its log if it fails."""
    program = start_server(command, log, environment or {})
    try:
        program.wait(START_S)
    except BaseException:
        # Ctrl-C or too late: it ends with all that it started.
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        raise
    if program.returncode:
        raise RuntimeError(f"{command[0]} ended with {program.returncode}: {_end_of(log)}")


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    log: Path | None = None,
    seconds: float = START_S,
    every_s: float = 0.02,
) -> None:
    """Return when the condition holds, checked every `every_s`; RuntimeError after `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise RuntimeError(f"waited {seconds:g} s for {what}: {_end_of(log) if log else ''}")
        time.sleep(every_s)


def listens(port: int) -> bool:
    """Return whether a server accepts connections at that port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Give ports of this machine on which only servers of this block will listen."""
    with ExitStack() as sockets:
        reserved = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in reserved:
            # Nobody gets a port that is bound here, but for a server that sets this option too, as most do.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in reserved]


def end_processes_with(variable: str, value: str | Path) -> None:
    """Kill what servers left behind on purpose: the processes that were started with that environment variable."""
    sign = f"{variable}={value}".encode()
    wait_until(lambda: not _kill_all(sign), what=f"the processes with {variable} to end")


def _kill_all(sign: bytes) -> list[int]:
    killed = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.name != str(os.getpid()) and sign in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
                killed.append(int(folder.name))
    return killed


def start_server(command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a server that does not outlive the thread that starts it; its caller ends it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            # So that it does not outlive a test run that is killed.
            ("setpriv", "--pdeathsig", "TERM", *command),
            env={"PATH": SEARCH_PATH, "LC_ALL": "C", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def missing_files(files: Sequence[str]) -> list[str]:
    """Return the programs, and the files given as a pattern with slashes, that this machine lacks."""
    return [file for file in files if not _exists(file)]


def _exists(file: str) -> bool:
    if "/" in file:
        return any(Path("/").glob(file.removeprefix("/")))
    return shutil.which(file, path=SEARCH_PATH) is not None


def free_udp_port(host: str) -> int:
    """Return a free port of an address."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
