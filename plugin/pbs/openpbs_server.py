"""The configuration of an OpenPBS server: offpeak's custom resources and hooks, the site's formula, and missing parts.

The installer makes the custom resources, by which jobs and nodes carry our values. The site's own formula for the order
of jobs is evaluated as far as the server shows its terms.
"""

import ast
import operator
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from offpeak.model.constants import DAY_S
from offpeak.plugin.pbs.commands import Record, as_int, as_text, json_part, limit_s, memory_mib

PRIORITY_RESOURCE = "offpeak_prio"
"""A resource of a job, which is added to the site's formula. Float; users may not set it."""
BEGIN_RESOURCE = "offpeak_begin"
"""A job's resource: the runjob hook does not start it before this time [Unix s]; 0: none. Users may not set it."""
NODE_RESOURCE = "offpeak_node"
"""A node's resource: offpeak's mark, a text. A comment will not do: the server overwrites it when a node goes down."""
OUR_RESOURCES = frozenset({PRIORITY_RESOURCE, BEGIN_RESOURCE, NODE_RESOURCE})

FORMULA_SCALE = 1000
"""1 in the site's formula is this many of our whole numbers."""

OUR_TERM = re.compile(rf"\s*\+?\s*\b{PRIORITY_RESOURCE}\b")

_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_JOB_TERMS = frozenset({"job_priority", "queue_priority", "eligible_time"})
# These terms change from cycle to cycle, and the server does not show them.
_HIDDEN_TERMS = re.compile(r"fair|accrue")

RUNJOB_HOOK, QUEUEJOB_HOOK, MODIFYJOB_HOOK = "offpeak_runjob", "offpeak_queuejob", "offpeak_modifyjob"
DEFAULT_SCHEDULER = "default"
INSTALL_HINT = (
    "run `deploy/openpbs/setup install` as root on the server's host; a package has it in /usr/share/offpeak/openpbs"
)
HOOK_FAILURES = "OFFPEAK_HOOK_FAILURES"
"""The variable that names the folder in which each of our hooks leaves its last failure."""
FAILURES_FOLDER = "/run/offpeak-hooks"
RECENT_FAILURE_S = DAY_S
"""How long a failure of a hook is reported."""

_RESOURCE = re.compile(r"^Resource (\S+)$", re.MULTILINE)
_HOOK = re.compile(r"^Hook (\S+)$((?:\n[ \t].*)*)", re.MULTILINE)
_SCHED = re.compile(r"^Sched ([\w.-]+)$((?:\n[ \t].*)*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^\s+(\w+) = (.*)$", re.MULTILINE)
_ENABLED = re.compile(r"^\s+enabled = true", re.MULTILINE | re.IGNORECASE)


class UnknownTerm(ValueError):
    """The formula has a term that the server does not show."""


@dataclass(frozen=True)
class Formula:
    """`ours`: the formula contains offpeak's term. `problem` is why the site's own order cannot be computed, if so."""

    site: str
    ours: bool
    problem: str
    tree: ast.expr | None

    def site_value(self, job: Record, queue_priority: Mapping[str, int]) -> float:
        """Return the value of the site's own formula for a job, 0 if it cannot be computed."""
        if self.tree is None:
            return 0.0
        try:
            return _evaluate(self.tree, job, queue_priority)
        except (UnknownTerm, ArithmeticError):
            return 0.0


def parse_formula(written: str) -> Formula:
    """Return a server's job_sort_formula, "" for none."""
    plain = written.strip().strip('"')
    site = OUR_TERM.sub("", plain).strip()
    site = site.removeprefix("+").strip()
    if not site:
        return Formula("", PRIORITY_RESOURCE in plain, "", None)
    try:
        tree = ast.parse(site, mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and _HIDDEN_TERMS.search(node.id):
                raise UnknownTerm(f"the server does not show {node.id}")
            if isinstance(node, ast.Call):
                raise UnknownTerm("it calls a function")
    except (SyntaxError, UnknownTerm) as problem:
        return Formula(site, PRIORITY_RESOURCE in plain, f"{problem}", None)
    return Formula(site, PRIORITY_RESOURCE in plain, "", tree)


def _evaluate(tree: ast.expr, job: Record, queue_priority: Mapping[str, int]) -> float:
    match tree:
        case ast.Constant(value=int() | float() as constant):
            return float(constant)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, job, queue_priority), _evaluate(right, job, queue_priority))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, job, queue_priority)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand, job, queue_priority)
        case ast.Name(id=name):
            if name == "job_priority":
                return float(as_int(job.get("Priority")))
            if name == "queue_priority":
                return float(queue_priority.get(as_text(job.get("queue")), 0))
            value = job.get(name) if name in _JOB_TERMS else json_part(job, "Resource_List").get(name)
            if isinstance(value, int | float):
                return float(value)
            seconds = limit_s(as_text(value) or None)
            return float(seconds if seconds is not None else memory_mib(as_text(value)) * 1024)
    raise UnknownTerm(ast.unparse(tree))


def parse_resources(listed: bytes) -> frozenset[str]:
    """Return the names in the answer to `qmgr -c 'list resource'`."""
    return frozenset(_RESOURCE.findall(listed.decode(errors="replace")))


def parse_hooks(listed: bytes) -> frozenset[str]:
    """Return the names of the enabled hooks in the answer to `qmgr -c 'list hook'`."""
    found = _HOOK.findall(listed.decode(errors="replace"))
    return frozenset(name for name, attributes in found if _ENABLED.search(attributes))


def parse_schedulers(listed: bytes) -> dict[str, dict[str, str]]:
    """Return the attributes of each scheduler in the answer to `qmgr -c 'list sched'`."""
    return {name: dict(_ATTRIBUTE.findall(lines)) for name, lines in _SCHED.findall(listed.decode(errors="replace"))}


def hook_failures(now_s: float | None = None) -> list[tuple[str, str]]:
    """Return our hooks that failed within the last day, each as message and hint.

    The server's log has the failures too, but only root reads it. A hook writes a file into a folder of root.
    """
    since_s = (time.time() if now_s is None else now_s) - RECENT_FAILURE_S
    found = []
    for file in sorted(Path(os.environ.get(HOOK_FAILURES, FAILURES_FOLDER)).glob("offpeak_*")):
        try:
            if file.stat().st_mtime >= since_s:
                line = " ".join(file.read_text(errors="replace")[:500].split())
                found.append((f"the hook {file.name} failed: {line}", f"{INSTALL_HINT}; the server's log has more"))
        except OSError:
            continue
    return found
