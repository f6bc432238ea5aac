"""The process: the user it acts for, the lock that lets only one program switch nodes, and its random numbers.

The user is the one that the kernel knows, never $LOGNAME or $USER, which anybody can set.

The program that holds the lock in the state folder acts; a second one refuses to start. The lock belongs to the
process and ends with it, however it ends, so no file that is left behind blocks a start. On NFS the lock holds
between head nodes only where the server keeps locks and the mount is not `nolock` or `local_lock`: the folder should
be on a local disk. The agents of a pair of head nodes take turns by a lease in their ledger (offpeak/ledger/lease.py).
"""

import errno
import fcntl
import math
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import termios
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError

ROOT = 0
NO_LOGIN_UID = 2**32 - 1
"""The login uid of a process that nobody has logged in for, such as a daemon."""


def user_name(uid: int) -> str:
    """Return the name of the user, the number where it has none."""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def login_uid(uid: int, process: int | str) -> int:
    """Return the uid of the person behind a process: for root the login uid, which su and sudo do not change."""
    if uid != ROOT:
        return uid
    with suppress(OSError, ValueError):
        login_uid = int(Path(f"/proc/{process}/loginuid").read_text())
        if login_uid != NO_LOGIN_UID:
            return login_uid
    return uid


def login_name() -> str:
    """Return the name of the person for whom this process acts."""
    uid = login_uid(os.getuid(), "self")
    if uid == ROOT and os.environ.get("SUDO_UID", "").isdecimal():
        # Where the kernel keeps no login uid. Only root can set it for root.
        uid = int(os.environ["SUDO_UID"])
    return user_name(uid)


def ends_in_time(command: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Return the command behind `timeout`, which ends it even if this process is stopped meanwhile."""
    return ("timeout", "--foreground", "--signal=KILL", f"{max(seconds, 0.01):.3f}", *command)


KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""The exit codes of `timeout` after it has ended a command."""
UNENDED_HINT = "end it as its user; in sudoers TIMEOUT=50s before NOPASSWD ends such a command in time"
_unended: list[subprocess.Popen[bytes]] = []
"""Programs of another user, such as sudo's, that ran out of time and cannot be killed."""


_guard: ContextVar[Callable[[], float] | None] = ContextVar("guard", default=None)


@contextmanager
def guarded_orders(guard: Callable[[], float]) -> Iterator[None]:
    """Within the block `run_order` calls the guard directly before it gives an order, however long it has waited.

    The guard raises OrderTooLate, or returns for how long the order is allowed [s].
    """
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


def order_allowed_s() -> float:
    """Return for how long an order is allowed now; without a guard there is no end. Raises OrderTooLate."""
    guard = _guard.get()
    return guard() if guard else math.inf


def run_order(
    command: Sequence[str], *, behind: Sequence[str] = (), environment: Mapping[str, str], text: str, timeout_s: float
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program that changes something, behind a prefix such as sudo. Raises TimeoutExpired, OSError, OrderTooLate.

    It does not outlive its time. What is behind a prefix may belong to another user and cannot be killed then:
    `find_unended_orders` reports it until it ends. Such a program is given the `text` once it reads, and has to ignore
    an empty line: what is before it, such as sudo's own checks, delays no order.
    """
    if not behind and shutil.which(command[0], path=environment.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    pipe = subprocess.PIPE
    timeout_s = min(timeout_s, order_allowed_s())
    arguments = (*behind, *command) if behind else ends_in_time(command, timeout_s)
    process = subprocess.Popen(arguments, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    until_s, given = time.monotonic() + timeout_s, True
    try:
        if behind and text:
            given = False
            _wait_until_it_reads(process, timeout_s)
            order_allowed_s()
            given = True
        out, complaints = process.communicate(text.encode(), timeout=until_s - time.monotonic())
    except BaseException:
        _end_order(process, given=given)
        raise
    if not behind and process.returncode in KILLED:
        raise subprocess.TimeoutExpired(command, timeout_s)
    return subprocess.CompletedProcess(command, process.returncode, out, complaints)


LOOK_S = 0.002


def _wait_until_it_reads(process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Return once the program has read an empty line, or has ended. Raises TimeoutExpired."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    with suppress(BrokenPipeError):
        process.stdin.flush()
    unread, until_s = array("i", [1]), time.monotonic() + timeout_s
    while unread[0] and process.poll() is None:
        if time.monotonic() > until_s:
            raise subprocess.TimeoutExpired(process.args, timeout_s)
        time.sleep(LOOK_S)
        fcntl.ioctl(process.stdin, termios.FIONREAD, unread)


def _end_order(process: "subprocess.Popen[bytes]", *, given: bool) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except PermissionError:
        # Without an order it can do nothing later: it finds the end of its input.
        if given:
            _unended.append(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
    except ProcessLookupError:
        pass
    else:
        process.communicate()


def find_unended_orders() -> str:
    """Return which orders have run out of time and still run: they may be carried out at any moment; "" for none."""
    _unended[:] = [process for process in _unended if process.poll() is None]
    return ", ".join(f"process {process.pid}" for process in _unended)


LOCK = "agent.lock"


class AlreadyRunning(OffpeakError):
    """Another program holds the state folder: the agent, or a command that switches nodes."""


@contextmanager
def exclusive_lock(state_folder: Path) -> Iterator[None]:
    """Hold the folder until the block ends. Raises AlreadyRunning with the other's process id, BadInput without it."""
    hint = f"`mkdir -p {state_folder}` makes the folder; its name is state_folder below [agent]"
    with locked_file(
        state_folder / LOCK,
        message="another offpeak switches nodes",
        hint="two would switch the same nodes",
        missing=hint,
    ):
        yield


@contextmanager
def locked_file(path: Path, *, message: str, hint: str, missing: str = "") -> Iterator[None]:
    """Hold a lock on the file until the block ends. Raises AlreadyRunning, with the other's process id, where it is
    held.

    `missing` is the hint of the BadInput where the file cannot be made.
    """
    try:
        # Nobody else can write it, and no program that is started inherits it. Root may run a command in the agent's
        # folder: a link to another file would empty that one.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as problem:
        if isinstance(problem, PermissionError) or not missing:
            missing = f"run it as root or as the agent's user, which may write to {path.parent}"
        raise BadInput(f"{path}: cannot be opened: {problem.strerror}", hint=missing) from None
    with os.fdopen(descriptor, "r+") as file:
        _lock(path, file.fileno(), message=message, hint=hint)
        file.truncate(0)
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
        os.fsync(descriptor)
        yield


def _lock(path: Path, descriptor: int, *, message: str, hint: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who, _, host = path.read_text().strip().partition(" ")
        where = f" on {host}" if host not in ("", socket.gethostname()) else ""
        running = f"process {who}{where}" if who else "it has just started"
        hint = f"`ps {who}` shows it; {hint}" if who else hint
        raise AlreadyRunning(f"{message}: {running}", hint=hint) from None
    except OSError as problem:
        raise BadInput(
            f"{path}: cannot be locked: {problem.strerror}", hint=f"{path.parent} has to be on a local disk"
        ) from None


def separate_snmp_random_numbers() -> None:
    """Give pysnmp a random generator of its own: it draws the first request number of each engine.

    The shared generator stays as its owner has seeded it. Call this before an SNMP engine is made, in any thread.
    """
    # Slow to import.
    from pysnmp import nextid

    if nextid.random is random:
        nextid.random = random.Random()
