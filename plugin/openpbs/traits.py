"""What an OpenPBS server is set to, and what in there is wrong for us."""

import re

from plugin.openpbs.formula import Formula
from plugin.openpbs.resources import BEGIN, NODE, PRIO

HOOK = "offpeak_runjob"
INSTALL = "run `deploy/openpbs/setup install` as root on the server's host"

_NAME = re.compile(r"^(?:Resource|Hook) (\S+)$", re.MULTILINE)


def names_of(listed: str) -> frozenset[str]:
    """Return the names in the answer to `qmgr -c 'list resource'` or `list hook`."""
    return frozenset(_NAME.findall(listed))


def troubles_of(formula: Formula, resources: frozenset[str], hooks: frozenset[str]) -> list[tuple[str, str]]:
    """Return what keeps us from ordering, deferring or closing, each as message and hint."""
    troubles = []
    missing = [name for name in (PRIO, BEGIN, NODE) if name not in resources]
    if missing:
        troubles.append((f"the server has no resource {', '.join(missing)}", INSTALL))
    if not formula.ours:
        troubles.append((f"job_sort_formula has no {PRIO}: jobs do not change places", INSTALL))
    if formula.trouble:
        told = f"job_sort_formula {formula.site!r} cannot be worked out: {formula.trouble}; jobs keep their order"
        troubles.append((told, "take that out of the formula, or set queue = off below [agent]"))
    if HOOK not in hooks:
        troubles.append((f"the server has no hook {HOOK}: no job is kept back", INSTALL))
    return troubles
