"""The Unix socket of a service as a file, and the user at its other end.

Every user may connect. A service replaces the socket file of a dead service, never that of a running one. The kernel
names the peer (SO_PEERCRED, SO_PEERGROUPS; unix(7)).
"""

import errno
import os
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError
from offpeak.files import is_there
from offpeak.process import login_uid, user_name

LONGEST = 100
"""The longest path of a Unix socket: 108 bytes, less those of a temporary name."""


class AgentAnswers(OffpeakError):
    """Another agent answers on that socket."""


def bound_socket(path: Path) -> socket.socket:
    """Return a socket that listens there. Raises AgentAnswers if another service does, BadInput if the path cannot be
    used.

    The socket gets its mode before its name, so that it refuses no user.
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
    """Remove the file if it still has that inode number."""
    with suppress(OSError):
        if path.lstat().st_ino == number:
            path.unlink()


def _check(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST:
        raise BadInput(f"{path}: too long for a socket", hint=f"at most {LONGEST} bytes: socket below [agent]")
    folder = path.parent
    try:
        if not is_there(folder):
            folder.mkdir()
            folder.chmod(0o755)
        mode = folder.stat().st_mode
    except OSError as problem:
        hint = f"`install -d -o offpeak -m 755 {folder}` makes it; the unit has it made by RuntimeDirectory=offpeak"
        raise BadInput(f"{folder}: {problem.strerror}", hint=hint) from None
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise BadInput(f"{folder}: every user may put a socket there", hint=f"chmod o-w {folder}")
    if not is_there(path):
        return
    if not path.is_socket():
        raise BadInput(f"{path}: exists and is not a socket", hint="name another: socket below [agent]")
    if _is_answered(path):
        raise AgentAnswers(f"{path}: another agent answers there", hint="`offpeak status` shows which")


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        # A service that is too busy to accept is alive: only a refusal means that no service listens.
        return probe.connect_ex(os.fspath(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


SO_PEERGROUPS = 59
"""Linux 4.13; Python has no name for it."""

_CREDENTIALS = struct.Struct("3i")
_MOST_GROUPS = 256
"""The most that Python's getsockopt can return."""


@dataclass(frozen=True)
class Peer:
    """A process with the user and the groups that it had when it connected."""

    uid: int
    groups: frozenset[int]
    pid: int = 0

    @property
    def person(self) -> str:
        """The name of the person for whom the process acts; it may take a while if a name server is slow."""
        return user_name(login_uid(self.uid, self.pid))


def peer_of(connection: socket.socket) -> Peer:
    """Return the peer of a connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(uid, frozenset({gid, *_more_groups(connection)}), pid)


def _more_groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * _MOST_GROUPS)
    except OSError:
        # An older kernel: a user whose group is a supplementary one sees only their own jobs.
        return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)
