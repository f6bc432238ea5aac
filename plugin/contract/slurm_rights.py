"""The rights of this user in Slurm: the AdminLevel, and what PrivateData hides from the user.

The level comes from slurmctld itself, by `scontrol show assoc_mgr`: slurmctld decides by the level that it knows now,
not by the level in slurmdbd. Without slurmdbd only root and SlurmUser have a level.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from offpeak.plugin.slurm.commands import CannotAskSlurm, ask, parse_config
from offpeak.process import user_name

NEEDED = ("jobs", "nodes", "partitions", "reservations")
"""Entries of PrivateData that hide what the agent needs for its decisions."""
_LEVEL = re.compile(r"^\s*UserName=([^\s(]+)\((\d+)\).*?AdminLevel=(Not Set|\S+)", re.MULTILINE)
"""A user's name, the user's number where slurmctld has found it, and the level."""


class AdminLevel(StrEnum):
    """An Operator may change jobs, an Administrator nodes too. Both see what PrivateData hides from others."""

    NONE = "None"
    OPERATOR = "Operator"
    ADMINISTRATOR = "Administrator"


@dataclass(frozen=True)
class SlurmRights:
    """The user's level, and the entries of PrivateData that apply to it.

    `is_daemons`: it is root or SlurmUser. `is_unresolved`: slurmctld knows a level for the name, but not the user's
    number, by which it decides.
    """

    user: str
    level: AdminLevel
    hidden: tuple[str, ...] = ()
    is_daemons: bool = False
    is_unresolved: bool = False

    @property
    def hint(self) -> str:
        """What lets the user see and change everything."""
        if self.is_unresolved:
            return f"slurmctld has not found user {self.user}: `getent passwd {self.user}` on its node, then restart it"
        command = f"sacctmgr modify user {self.user} set adminlevel=Administrator"
        return f"{command}; without slurmdbd run offpeak as SlurmUser"

    @property
    def hidden_data(self) -> str:
        """What is hidden that decisions need, "" for nothing."""
        hidden = ",".join(entry for entry in self.hidden if entry in NEEDED)
        return f"PrivateData={hidden} in slurm.conf hides what belongs to others from {self.user}" if hidden else ""

    def require_all_jobs(self) -> None:
        """Raise CannotAskSlurm if slurmctld hides jobs from the user: a node with a hidden job looks free."""
        if "jobs" in self.hidden:
            message = f"squeue: PrivateData=jobs in slurm.conf hides the jobs of others from {self.user}"
            raise CannotAskSlurm(message, hint=self.hint)


ALL_RIGHTS = SlurmRights("", AdminLevel.ADMINISTRATOR)


def read_rights(config: Mapping[str, str], *, timeout_s: float) -> SlurmRights:
    """Return the rights of the user of this process; `config` is the answer to `scontrol show config`."""
    user = user_name(os.geteuid())
    if user in ("root", config.get("SlurmUser", "").partition("(")[0]):
        return SlurmRights(user, AdminLevel.ADMINISTRATOR, is_daemons=True)
    known = _read_levels(user, timeout_s)
    # Without slurmdbd's user in its own passwd database slurmctld keeps the level under no number, and ignores it.
    level = next((level for uid, level in known if uid == os.geteuid()), AdminLevel.NONE)
    private = tuple(entry for entry in config.get("PrivateData", "").lower().split(",") if entry)
    is_unresolved = level is AdminLevel.NONE and any(level is not AdminLevel.NONE for _, level in known)
    return SlurmRights(user, level, private if level is AdminLevel.NONE else (), is_unresolved=is_unresolved)


def current_rights(timeout_s: float) -> SlurmRights:
    """Return the rights as slurmctld decides by them now. Raises CannotAskSlurm if it does not answer.

    What root may see does not depend on the configuration.
    """
    if os.geteuid() == 0:
        return read_rights({}, timeout_s=timeout_s)
    return read_rights(parse_config(ask("scontrol", "show", "config", timeout_s=timeout_s)), timeout_s=timeout_s)


def find_admin_levels(shown: str, user: str) -> list[tuple[int, AdminLevel]]:
    """Return the numbers and levels of a user of that name in `scontrol show assoc_mgr`; none without slurmdbd."""
    levels = {level.value: level for level in AdminLevel}
    return [
        (int(uid), levels.get(level, AdminLevel.NONE)) for name, uid, level in _LEVEL.findall(shown) if name == user
    ]


def _read_levels(user: str, timeout_s: float) -> list[tuple[int, AdminLevel]]:
    try:
        answer = ask("scontrol", "show", "assoc_mgr", f"users={user}", "flags=users", timeout_s=timeout_s)
    except CannotAskSlurm:
        # PrivateData may refuse even this query; a user that is refused has no level.
        return []
    return find_admin_levels(answer.decode(errors="replace"), user)
