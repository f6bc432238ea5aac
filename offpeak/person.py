"""Who a process acts for, as the kernel knows it: never by $LOGNAME or $USER, which anybody can set."""

import os
import pwd
from contextlib import suppress
from pathlib import Path

ROOT = 0
NOT_SET = 2**32 - 1
"""The login uid of a process that nobody has logged in for, such as a daemon."""


def name_of_uid(uid: int) -> str:
    """Return the name of the user, the number where it has none."""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def person_uid(uid: int, process: int | str) -> int:
    """Return the uid of the person behind a process: for root the login uid, which su and sudo do not change."""
    if uid != ROOT:
        return uid
    with suppress(OSError, ValueError):
        login_uid = int(Path(f"/proc/{process}/loginuid").read_text())
        if login_uid != NOT_SET:
            return login_uid
    return uid


def this_person() -> str:
    """Return the name of the person for whom this process acts."""
    uid = person_uid(os.getuid(), "self")
    if uid == ROOT and os.environ.get("SUDO_UID", "").isdecimal():
        # Where the kernel keeps no login uid. Only root can set it for root.
        uid = int(os.environ["SUDO_UID"])
    return name_of_uid(uid)
