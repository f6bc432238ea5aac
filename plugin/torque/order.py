"""How a Torque site's jobs change places: by who starts them, and by what that sorts them."""

import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from offpeak.settings.schedulers import PbsSettings

AUTO = "auto"
CONFIG = Path("sched_priv", "sched_config")
PROCESSES = Path("/proc")
OTHERS = ("maui", "moab")
"""Schedulers of their own, which do not read sched_config."""

_SORT = re.compile(r"^\s*sort_by\s*:\s*(\w+)", re.MULTILINE)


class Route(StrEnum):
    """PRIORITY: `qalter -p`. SWAP: `qorder`, which exchanges two places of the queue. NONE: nobody is moved."""

    PRIORITY = "priority"
    SWAP = "swap"
    NONE = "none"


COMMANDS = {Route.PRIORITY: "qalter -p", Route.SWAP: "qorder", Route.NONE: "nothing"}
# By what pbs_sched sorts: with the others a job's place hangs on its size, and neither of our ways moves it.
OF_SORT = {"high_priority_first": Route.PRIORITY, "no_sort": Route.SWAP}


class Found(NamedTuple):
    """The way that is right here, how that is known, and where there is no way, what to do about it."""

    route: Route
    why: str
    hint: str = ""

    @property
    def words(self) -> str:
        """What an admin is told of it."""
        return f"{COMMANDS[self.route]}, as {self.why}"


def route_of(settings: PbsSettings, *, processes: Path = PROCESSES) -> Found:
    """Return the way: the settings', else by who runs here, else by what sched_config says."""
    if settings.torque_order != AUTO:
        return Found(Route(settings.torque_order), "torque_order says")
    if other := running(processes):
        hint = 'set torque_order below [pbs]: "priority" if its USERPRIOWEIGHT is not 0, else "none"'
        return Found(Route.NONE, f"{other} runs here, and nobody knows by what it sorts jobs", hint)
    return _of_config(settings.home / CONFIG)


def running(processes: Path) -> str:
    """Return which of OTHERS runs on this machine, "" for none, or where processes of others are hidden."""
    for file in processes.glob("[0-9]*/comm"):
        try:
            name = file.read_text(errors="replace").strip()
        except OSError:
            continue
        if name in OTHERS:
            return name
    return ""


def _of_config(file: Path) -> Found:
    try:
        found = _SORT.search(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as problem:
        hint = "let offpeak's user read it, and see `home`; or set torque_order below [pbs], as under Maui or Moab"
        return Found(Route.NONE, f"{file}: {problem.strerror}: nobody knows by what jobs are sorted", hint)
    hint = f"write `sort_by: high_priority_first ALL` into {file} and restart pbs_sched; under Maui or Moab, where"
    hint += ' priorities count, set torque_order = "priority" below [pbs]'
    sort_by = found[1] if found else "nothing"
    if sort_by in OF_SORT:
        return Found(OF_SORT[sort_by], f"pbs_sched sorts by {sort_by}")
    return Found(Route.NONE, f"pbs_sched sorts jobs by {sort_by}: their order is left as it is", hint)
