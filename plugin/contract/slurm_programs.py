"""SuspendProgram, ResumeProgram and ResumeFailProgram: whether slurmctld and its user can run them, and whose they are.

Only a controller's own files can be looked at. slurmctld wants an absolute path to a file that is executable and that
only its owner may write. From Slurm 26.05 on a program may be the name of a PowerAction, which only slurm.conf has.
"""

import configparser
import os
import pwd
import re
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand

SUSPEND, RESUME, RESUME_FAIL = "SuspendProgram", "ResumeProgram", "ResumeFailProgram"
PROGRAMS = {SUSPEND: "offpeak-suspend", RESUME: "offpeak-resume", RESUME_FAIL: "offpeak-resume-fail"}
"""The settings, and offpeak's own programs for them."""
FOLDER = "/usr/lib/offpeak"
"""The installed programs are there, see deploy/slurm/slurm.conf.offpeak."""
OUR_MARK = b"offpeak"
"""A program that names offpeak, such as a wrapper of the site, is taken for ours."""
MOST_BYTES = 1 << 20
NEXT_FILE = Path("/etc/offpeak/next_program.conf")
"""It names the nodes that offpeak's programs hand on to those of the site."""

_UID = re.compile(r"\((\d+)\)")
_POWER_ACTION = re.compile(r"^\s*PowerAction=(\S+)(.*)$", re.MULTILINE | re.IGNORECASE)
_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')


@dataclass(frozen=True)
class PowerProgram:
    """A program as slurm.conf names it; "" if it names none. `problem`: why slurmctld or its user cannot run it.

    `is_foreign`: the file does not name offpeak.
    """

    text: str
    problem: str = ""
    is_foreign: bool = False


def slurm_user_id(settings: Mapping[str, str]) -> int | None:
    """Return the uid of SlurmUser in the answer to `scontrol show config`."""
    match = _UID.search(settings.get("SlurmUser", ""))
    return int(match[1]) if match else None


def is_controller(settings: Mapping[str, str]) -> bool:
    """Whether this machine is one of the SlurmctldHosts."""
    here = socket.gethostname().partition(".")[0]
    hosts = [re.split(r"[.(]", value)[0] for name, value in settings.items() if name.startswith("SlurmctldHost")]
    return here in hosts


def read_programs(settings: Mapping[str, str]) -> dict[str, PowerProgram]:
    """Return the three programs; on another machine than a controller their files are not known."""
    here, uid = is_controller(settings), slurm_user_id(settings)
    found = {}
    for name in PROGRAMS:
        text = settings.get(name, "")
        found[name] = (
            _read_program(text, uid, Path(settings.get("SLURM_CONF", ""))) if here and text else PowerProgram(text)
        )
    return found


def read_next_nodes(settings: Mapping[str, str]) -> frozenset[str] | None:
    """Return the nodes that are handed on to the site's own programs; None if that is not known here."""
    if not is_controller(settings):
        return None
    config = configparser.ConfigParser(interpolation=None)
    try:
        config.read_string(NEXT_FILE.read_text())
        return frozenset(expand(config["next_program"]["nodes"]))
    except OSError as problem:
        return frozenset() if isinstance(problem, FileNotFoundError) else None
    except (configparser.Error, KeyError, ValueError, BadInput):
        return frozenset()


def _read_program(text: str, uid: int | None, slurm_conf: Path) -> PowerProgram:
    path = text.partition(" ")[0]
    if not path.startswith("/"):
        action = _find_power_action(text, slurm_conf)
        if action is None:
            return PowerProgram(text, "is neither an absolute path nor a PowerAction in slurm.conf")
        if action.get("location", "").lower() != "slurmctld":
            return PowerProgram(text, "is a PowerAction that runs on the node, which may be off")
        path = action.get("program", "").partition(" ")[0]
    problem = find_problem_of_file(path, uid)
    return PowerProgram(text, problem, is_foreign=not problem and _is_foreign(path))


def _find_power_action(name: str, slurm_conf: Path) -> dict[str, str] | None:
    """Return the fields of a PowerAction line, None without such a line; included files are not read."""
    with suppress(OSError):
        for action, rest in _POWER_ACTION.findall(slurm_conf.read_text(errors="replace")):
            if action == name:
                return {key.lower(): quoted or plain for key, quoted, plain in _FIELD.findall(rest)}
    return None


def find_problem_of_file(path: str, uid: int | None) -> str:
    """Return why slurmctld takes no such program, or its user may not run it; "" if all is well or not known."""
    if not path.startswith("/"):
        return "is not an absolute path"
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "no such file"
    except OSError:
        return ""
    if not stat.S_ISREG(mode) or not mode & 0o111:
        return "cannot be run"
    if mode & 0o022:
        return "others than its owner may write it"
    return "" if uid in (None, 0) or _may_run(Path(path), int(uid or 0)) else "SlurmUser may not run it"


def _may_run(path: Path, uid: int) -> bool:
    try:
        account = pwd.getpwuid(uid)
        groups = set(os.getgrouplist(account.pw_name, account.pw_gid))
    except KeyError:
        groups = set()
    for each in (path, *path.parents):
        with suppress(OSError):
            found = each.stat()
            bit = 0o100 if found.st_uid == uid else 0o010 if found.st_gid in groups else 0o001
            if not found.st_mode & bit:
                return False
    return True


def _is_foreign(path: str) -> bool:
    if Path(path).name in PROGRAMS.values():
        return False
    try:
        with Path(path).open("rb") as file:
            return OUR_MARK not in file.read(MOST_BYTES).lower()
    except OSError:
        return False
