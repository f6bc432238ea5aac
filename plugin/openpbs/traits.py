"""What an OpenPBS server is set to, and what in there is wrong for us."""

import os
import re
import time
from pathlib import Path

from plugin.openpbs.formula import Formula
from plugin.openpbs.resources import BEGIN, NODE, PRIO

RUNJOB, MODIFYJOB = "offpeak_runjob", "offpeak_modifyjob"
INSTALL = "run `deploy/openpbs/setup install` as root on the server's host"
HOOK_FAILURES = "OFFPEAK_HOOK_FAILURES"
"""The variable that names the folder in which each of our hooks leaves its last failure."""
FAILURES_FOLDER = "/run/offpeak-hooks"
RECENT_S = 86_400
"""A failure of a hook is reported for so long."""

_RESOURCE = re.compile(r"^Resource (\S+)$", re.MULTILINE)
_HOOK = re.compile(r"^Hook (\S+)$((?:\n[ \t].*)*)", re.MULTILINE)
_ENABLED = re.compile(r"^\s+enabled = true", re.MULTILINE | re.IGNORECASE)


def resources_of(listed: bytes) -> frozenset[str]:
    """Return the names in the answer to `qmgr -c 'list resource'`."""
    return frozenset(_RESOURCE.findall(listed.decode(errors="replace")))


def hooks_of(listed: bytes) -> frozenset[str]:
    """Return the names of the enabled hooks in the answer to `qmgr -c 'list hook'`."""
    found = _HOOK.findall(listed.decode(errors="replace"))
    return frozenset(name for name, attributes in found if _ENABLED.search(attributes))


def troubles_of(formula: Formula, resources: frozenset[str], hooks: frozenset[str] | None) -> list[tuple[str, str]]:
    """Return what keeps us from ordering, deferring or closing, each as message and hint.

    `hooks` is None where the server does not show them to this user.
    """
    troubles = []
    missing = [name for name in (PRIO, BEGIN, NODE) if name not in resources]
    if missing:
        troubles.append((f"the server has no resource {', '.join(missing)}", INSTALL))
    if not formula.ours:
        troubles.append((f"job_sort_formula has no {PRIO}: jobs do not change places", INSTALL))
    if formula.trouble:
        told = f"job_sort_formula {formula.site!r} cannot be worked out: {formula.trouble}; jobs keep their order"
        troubles.append((told, "take that out of the formula, or set queue = off below [agent]"))
    if hooks is not None and RUNJOB not in hooks:
        troubles.append((f"the server has no enabled hook {RUNJOB}: no job is kept back", INSTALL))
    if hooks is not None and MODIFYJOB not in hooks:
        troubles.append((f"the server has no enabled hook {MODIFYJOB}: users raise their own jobs' priority", INSTALL))
    return troubles


def hook_failures(now_s: float | None = None) -> list[tuple[str, str]]:
    """Return the hooks of ours that failed within the last day, each as message and hint.

    The server's log says it too, but only root finds it there. A hook leaves a file where only root may write.
    """
    since_s = (time.time() if now_s is None else now_s) - RECENT_S
    found = []
    for file in sorted(Path(os.environ.get(HOOK_FAILURES, FAILURES_FOLDER)).glob("offpeak_*")):
        try:
            if file.stat().st_mtime >= since_s:
                line = " ".join(file.read_text(errors="replace")[:500].split())
                found.append((f"the hook {file.name} failed: {line}", f"{INSTALL}; the server's log has more"))
        except OSError:
            continue
    return found
