"""Reads the accounting files that a Torque or OpenPBS server writes, one a day."""

import os
import re
from datetime import date
from pathlib import Path

from offpeak.errors import BadTrace
from offpeak.files import LongText, is_there, joined, text_of_file

ACCOUNTING = Path("server_priv", "accounting")
OPENPBS_HOME = Path("var/spool/pbs")

_DAY = re.compile(r"(\d{8})(\.gz)?")
_PBS_HOME = re.compile(r"^\s*PBS_HOME\s*=\s*(\S+)", re.MULTILINE)


def accounting_text(folder: Path, since: date | None = None) -> LongText:
    """Return the daily files from that day of the server's clock on, oldest first. Raises BadTrace if there is none.

    Files may be gzipped, the newest unfinished.
    """
    first = f"{since:%Y%m%d}" if since else ""
    files = [file for day, file in _daily_files(folder) if day >= first]
    if not files:
        span = f" since {since}" if since else ""
        raise BadTrace(f"{folder}: no accounting file{span}", hint=_available_days(folder))
    # A server that crashed may have left half a line, which must not run into the next day's first.
    return joined([text_of_file(file, BadTrace) for file in files])


def openpbs_accounting_folder(root: Path = Path("/")) -> Path:
    """Return the folder of this machine's OpenPBS accounting files, from pbs.conf or the default."""
    folders = [root / home / ACCOUNTING for home in (*_configured_homes(root), OPENPBS_HOME)]
    return next((folder for folder in folders if may_be_there(folder)), folders[0])


def openpbs_home(root: Path = Path("/")) -> Path:
    """Return the folder of this machine's OpenPBS, from pbs.conf or the default."""
    return root / next(iter(_configured_homes(root)), OPENPBS_HOME)


def _daily_files(folder: Path) -> list[tuple[str, Path]]:
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        hint = "name the server's folder: /var/spool/torque/server_priv/accounting or /var/spool/pbs/server_priv/..."
        raise BadTrace(f"{folder}: no such folder", hint=hint) from None
    except OSError as problem:
        hint = f"it is the PBS server's own: run this as root, or copy its files; try `ls -ld {folder}`"
        raise BadTrace(f"{folder}: cannot be read: {problem.strerror}", hint=hint) from None
    days = [(_DAY.fullmatch(file.name), file) for file in files]
    return [(day[1], file) for day, file in days if day]


def _available_days(folder: Path) -> str:
    days = [day for day, _ in _daily_files(folder)]
    if not days:
        return "its files are named after days, such as 20260131: is this the folder accounting of server_priv?"
    return f"the files there are from {days[0]} to {days[-1]}: ask for more days"


def _configured_homes(root: Path) -> list[Path]:
    # The variable is OpenPBS's own: its commands look there, too.
    conf = Path(os.environ.get("PBS_CONF_FILE") or root / "etc/pbs.conf")
    try:
        settings = conf.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [Path(home.strip("\"'").lstrip("/")) for home in _PBS_HOME.findall(settings)]


def may_be_there(path: Path) -> bool:
    """Whether there is such a file or folder, or may be: ordinary users cannot read folders such as server_priv."""
    try:
        return is_there(path)
    except PermissionError:
        return True
