"""The rights of callers on the agent's socket: to ask, to report nodes, to hold nodes. The kernel names the caller."""

import grp
import os
import pwd
from dataclasses import dataclass

from offpeak.errors import BadSetting
from power.agent.peer import Peer

ROOT = 0


@dataclass(frozen=True)
class Rights:
    """`may_tell`: what it says of nodes counts. `may_hold`: it may hold and release nodes. `sees_all`: all jobs."""

    may_tell: bool
    may_hold: bool
    sees_all: bool


@dataclass(frozen=True)
class Callers:
    """The user of the agent, the user of the scheduler, and the groups of operators and of viewers."""

    own_uid: int
    scheduler_uid: int | None = None
    operators_gid: int | None = None
    viewers_gid: int | None = None

    def rights_of(self, peer: Peer) -> Rights:
        """Return what the peer may do."""
        may_tell = peer.uid in (ROOT, self.own_uid, self.scheduler_uid)
        may_hold = may_tell or self.operators_gid in peer.groups
        return Rights(may_tell, may_hold, sees_all=may_hold or self.viewers_gid in peer.groups)


def callers(scheduler_user: str, operators: str | None, viewers: str | None = None) -> Callers:
    """Return who has which rights; BadSetting for a group that is not there, or that is meant to be both.

    A user that is not there tells nothing.
    """
    if operators and operators == viewers:
        hint = "two groups: who only looks, as the status page does, must not be able to hold nodes"
        raise BadSetting(f"agent.viewers: {viewers} is the group of operators too", hint=hint)
    return Callers(os.geteuid(), _uid(scheduler_user), _gid("operators", operators), _gid("viewers", viewers))


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _gid(setting: str, group: str | None) -> int | None:
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise BadSetting(f"agent.{setting}: there is no group {group}", hint=f"groupadd --system {group}") from None
