"""One program only switches nodes: whoever holds the lock in the state folder acts, a second one refuses to start.

The lock belongs to the process: it goes with it however it ends, so no file that is left behind hinders anybody. On NFS
it holds between head nodes only where the server keeps locks and the mount is not `nolock` or `local_lock`: the folder
should be on a local disk, and what starts services on a pair of head nodes should start one agent only.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError

LOCK = "agent.lock"


class AlreadyRunning(OffpeakError):
    """Another program holds the state folder: the agent, or a command that switches nodes."""


@contextmanager
def only_one(state_folder: Path) -> Iterator[None]:
    """Hold the folder until the block ends; AlreadyRunning with the other's process id, BadInput without a folder."""
    hint = f"`mkdir -p {state_folder}` makes the folder; its name is state_folder below [agent]"
    with locked_file(
        state_folder / LOCK, said="another offpeak switches nodes", hint="two would switch the same nodes", missing=hint
    ):
        yield


@contextmanager
def locked_file(path: Path, *, said: str, hint: str, missing: str = "") -> Iterator[None]:
    """Hold a lock on the file until the block ends; AlreadyRunning, with the other's process id, where it is held.

    `missing` is the hint of the BadInput where the file cannot be made.
    """
    try:
        # Nobody else can write it, and no program that is started inherits it.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        if isinstance(problem, PermissionError) or not missing:
            missing = f"run it as root or as the agent's user, which may write to {path.parent}"
        raise BadInput(f"{path}: cannot be opened: {problem.strerror}", hint=missing) from None
    with os.fdopen(descriptor, "r+") as file:
        _lock(path, file.fileno(), said=said, hint=hint)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _lock(path: Path, descriptor: int, *, said: str, hint: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = path.read_text().strip()
        running = f"process {who}" if who else "it has just started"
        hint = f"`ps {who}` shows it; {hint}" if who else hint
        raise AlreadyRunning(f"{said}: {running}", hint=hint) from None
    except OSError as problem:
        raise BadInput(
            f"{path}: cannot be locked: {problem.strerror}", hint=f"{path.parent} has to be on a local disk"
        ) from None
