"""Who may ask the agent what: root, its user and operators all, others of their own jobs; who may tell it of nodes."""

import grp
import os
import pwd
from dataclasses import dataclass

from offpeak.errors import BadSetting
from power.agent.peer import Peer

ROOT = 0


@dataclass(frozen=True)
class Rights:
    """`may_tell`: what it says of nodes counts. `sees_all`: other people's jobs too. Who sees all may hold nodes."""

    may_tell: bool
    sees_all: bool


@dataclass(frozen=True)
class Callers:
    """The user that the agent is, the user that the scheduler is, and the group of those who see everything."""

    own_uid: int
    scheduler_uid: int | None = None
    operators_gid: int | None = None

    def rights_of(self, peer: Peer) -> Rights:
        """Return what the peer may do."""
        may_tell = peer.uid in (ROOT, self.own_uid, self.scheduler_uid)
        return Rights(may_tell, may_tell or self.operators_gid in peer.groups)


def callers(scheduler_user: str, operators: str | None) -> Callers:
    """Return who has which rights; BadSetting for a group that is not there. A user that is not there tells nothing."""
    return Callers(os.geteuid(), _uid(scheduler_user), _gid(operators) if operators else None)


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _gid(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise BadSetting(f"agent.operators: there is no group {group}", hint=f"groupadd --system {group}") from None
