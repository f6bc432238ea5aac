"""The site's own formula for the order of jobs, as far as it can be worked out from what the server tells of them."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plugin.openpbs.answer_json import Record, part
from plugin.openpbs.resources import PRIO
from plugin.pbs.words import limit_s, memory_mib, number, text

TERM = re.compile(rf"\s*\+?\s*\b{PRIO}\b")

_DO: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_OF_JOB = frozenset({"job_priority", "queue_priority", "eligible_time"})
# They change from cycle to cycle and are told to nobody.
_HIDDEN = re.compile(r"fair|accrue")


class CannotTell(ValueError):
    """The formula has something in it that the server does not tell."""


@dataclass(frozen=True)
class Formula:
    """`ours`: our term is in it. `trouble` is what keeps us from knowing the site's own order, "" if nothing does."""

    site: str
    ours: bool
    trouble: str
    tree: ast.expr | None

    def site_value(self, job: Record, queue_priority: Mapping[str, int]) -> float:
        """Return what the site's own formula says of a job, 0 where that cannot be told: then only places count."""
        if self.tree is None:
            return 0.0
        try:
            return _value(self.tree, job, queue_priority)
        except (CannotTell, ArithmeticError):
            return 0.0


def formula_of(written: str) -> Formula:
    """Return a server's job_sort_formula, "" for none."""
    plain = written.strip().strip('"')
    site = TERM.sub("", plain).strip()
    site = site.removeprefix("+").strip()
    if not site:
        return Formula("", PRIO in plain, "", None)
    try:
        tree = ast.parse(site, mode="eval").body
        _check(tree)
    except (SyntaxError, CannotTell) as problem:
        return Formula(site, PRIO in plain, f"{problem}", None)
    return Formula(site, PRIO in plain, "", tree)


def with_ours(written: str) -> str:
    """Return the formula with our term in it; what the site had stays as it is."""
    if PRIO in written:
        return written
    return f"{written} + {PRIO}" if written.strip() else PRIO


def _check(tree: ast.expr) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and _HIDDEN.search(node.id):
            raise CannotTell(f"its {node.id} is told to nobody")
        if isinstance(node, ast.Call):
            raise CannotTell("it calls a function")


def _value(tree: ast.expr, job: Record, queue_priority: Mapping[str, int]) -> float:
    match tree:
        case ast.Constant(value=int() | float() as constant):
            return float(constant)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _DO:
            return _DO[type(op)](_value(left, job, queue_priority), _value(right, job, queue_priority))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, job, queue_priority)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, job, queue_priority)
        case ast.Name(id=name):
            return _named(name, job, queue_priority)
    raise CannotTell(ast.unparse(tree))


def _named(name: str, job: Record, queue_priority: Mapping[str, int]) -> float:
    if name == "job_priority":
        return float(number(job.get("Priority")))
    if name == "queue_priority":
        return float(queue_priority.get(text(job.get("queue")), 0))
    value = job.get(name) if name in _OF_JOB else part(job, "Resource_List").get(name)
    if isinstance(value, int | float):
        return float(value)
    seconds = limit_s(text(value) or None)
    return float(seconds if seconds is not None else memory_mib(text(value)) * 1024)
