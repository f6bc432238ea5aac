"""Logins to BMCs, PDUs and nodes, and their passwords and keys.

A secret is read when it is needed, from a file that only its owner can read, and is never shown.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from offpeak.errors import BadInput, BadInventory


@dataclass(frozen=True)
class Secret:
    """A value that must not be printed, logged or stored; `value` is sent to the device."""

    value: bytes = field(repr=False)

    def __str__(self) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not stored")


def secret_path(written: Path, *, beside: Path) -> Path:
    """Return the path of a secret's file: if relative, below systemd's $CREDENTIALS_DIRECTORY, else below `beside`."""
    return Path(os.environ.get("CREDENTIALS_DIRECTORY") or beside) / written.expanduser()


def read_secret(path: Path) -> Secret:
    """Return the file's first line. Raises BadInput if it cannot be read, is empty, or is readable by others."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline().rstrip(b"\r\n")
    except OSError as problem:
        hint = f"write the password into it: (umask 077; cat > {path}), then Ctrl-D"
        if isinstance(problem, PermissionError):
            hint = "run the command as root, or as the user of the agent"
        raise BadInput(f"{path}: cannot be read: {problem.strerror}", hint=hint) from None
    others = stat.S_IRWXG | stat.S_IRWXO
    # systemd grants a service its credentials by an access list, whose mask replaces the group's permissions.
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    if mode & (others & ~stat.S_IRGRP if handed and path.is_relative_to(handed) else others):
        raise BadInput(f"{path}: others than its owner may read it", hint=f"chmod 600 {path}")
    if not line:
        raise BadInput(f"{path}: its first line is empty", hint="the password is the file's first line")
    return Secret(line)


@dataclass(frozen=True)
class Credential:
    """A login by its name in the inventory.

    The file `password_file` holds the password of a BMC, the community of SNMP v1 and v2c, or the authentication key of
    SNMPv3, whose privacy key is in `privacy_file`. `key_file` is ssh's private key, `known_hosts` its trusted keys.
    """

    name: str
    user: str = ""
    password_file: Path | None = None
    privacy_file: Path | None = None
    authentication: str = "SHA"
    privacy: str = "AES"
    key_file: Path | None = None
    known_hosts: Path | None = None

    def password(self) -> Secret:
        """Return the password. Raises BadInput like `read_secret`, BadInventory if no file is named."""
        if self.password_file is None:
            where = f"credentials.{self.name}"
            raise BadInventory(f"{where}: has no password_file", hint=f"add password_file below [{where}]")
        return read_secret(self.password_file)
