"""Who is at the other end of a Unix socket, as the kernel says (SO_PEERCRED, SO_PEERGROUPS; unix(7))."""

import socket
import struct
from dataclasses import dataclass

from offpeak.process import login_uid, user_name

SO_PEERGROUPS = 59
"""Linux 4.13; Python has no name for it."""

_CREDENTIALS = struct.Struct("3i")
_MOST_GROUPS = 256
"""As many as Python's getsockopt takes."""


@dataclass(frozen=True)
class Peer:
    """A process by the user and the groups that it had when it connected."""

    uid: int
    groups: frozenset[int]
    pid: int = 0

    @property
    def person(self) -> str:
        """The name of the person for whom the process acts; it may take a while where a name server is slow."""
        return user_name(login_uid(self.uid, self.pid))


def peer_of(connection: socket.socket) -> Peer:
    """Return who connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(uid, frozenset({gid, *_more_groups(connection)}), pid)


def _more_groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4 * _MOST_GROUPS)
    except OSError:
        # An older kernel: who is in the group by it as a further one sees the own jobs only.
        return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)
