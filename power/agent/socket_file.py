"""The agent's socket as a file: everybody may connect, a dead agent's is replaced, a living one's never."""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError

LONGEST = 100
"""Bytes of a path that a Unix socket can have: 108, less what a name for the time being needs."""


class AgentAnswers(OffpeakError):
    """Another agent answers on that socket."""


def bound_socket(path: Path) -> socket.socket:
    """Return a socket that listens there; AgentAnswers if somebody does already, BadInput where it cannot be.

    It has its mode before it has its name: nobody finds one that refuses them.
    """
    _check(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    new = path.with_name(f".{os.getpid()}.sock")
    try:
        new.unlink(missing_ok=True)
        listener.bind(os.fspath(new))
        new.chmod(0o666)
        listener.listen()
        new.replace(path)
    except OSError as problem:
        listener.close()
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise BadInput(
            f"{path}: {problem.strerror}", hint=f"may this user write there? `ls -ld {path.parent}`"
        ) from None
    return listener


def remove_socket(path: Path, number: int) -> None:
    """Remove the file if it is still that one, by its inode number."""
    with suppress(OSError):
        if path.lstat().st_ino == number:
            path.unlink()


def _check(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST:
        raise BadInput(f"{path}: too long for a socket", hint=f"at most {LONGEST} bytes: socket below [agent]")
    _check_folder(path.parent)
    if not path.exists():
        return
    if not path.is_socket():
        raise BadInput(f"{path}: is there and no socket", hint="name another: socket below [agent]")
    if _somebody_answers(path):
        raise AgentAnswers(f"{path}: another agent answers there", hint="`offpeak status` shows which")


def _check_folder(folder: Path) -> None:
    try:
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
        mode = folder.stat().st_mode
    except OSError as problem:
        hint = f"`install -d -o offpeak -m 755 {folder}` makes it; the unit has it made by RuntimeDirectory=offpeak"
        raise BadInput(f"{folder}: {problem.strerror}", hint=hint) from None
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise BadInput(f"{folder}: everybody may put a socket there", hint=f"chmod o-w {folder}")


def _somebody_answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        # One that is too busy to take us is alive: only a refusal says that nobody listens.
        return probe.connect_ex(os.fspath(path)) not in (errno.ECONNREFUSED, errno.ENOENT)
