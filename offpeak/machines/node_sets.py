"""Node sets as admins write them, n[001-064] or @rack1, in the syntax of ClusterShell."""

import re
from collections.abc import Iterable

from offpeak.errors import BadInput

_OUTER_COMMA = re.compile(r",(?![^\[]*\])")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_STARTS = re.compile(r"(?:^|,)(\d+)")
_OTHER_OPERATORS = re.compile(r"[!&^@*]")


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node set in ascending order, "n[1-3]" as n1, n2, n3; BadInput if it is none or empty."""
    # It reads its configuration when it is imported, which `offpeak --version` must not wait for.
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        names = tuple(NodeSet(text, autostep=None))
    except NodeSetException as problem:
        hint = "write node sets as n[001-064], n1,n3 or @group"
        raise BadInput(f"{text!r} is no node set: {problem}", hint=hint) from None
    if not names:
        raise BadInput(f"{text!r} names no node", hint="write node sets as n[001-064], n1,n3 or @group")
    return names


def expand_in_order(text: str) -> tuple[str, ...]:
    """Return the names of a node set in the order in which they are written: two such sets can be laid side by side.

    BadInput as `expand`, and for what has no written order: ranges that go back, n[3,1], and operators but the comma.
    """
    pieces = _OUTER_COMMA.split(text)
    for piece in pieces:
        starts = [[int(start) for start in _STARTS.findall(ranges)] for ranges in _BRACKETS.findall(piece)]
        if any(each != sorted(each) for each in starts) or _OTHER_OPERATORS.search(piece):
            hint = (
                "write ranges upwards, n[1,3], and several sets with commas: what stands beside them has the same order"
            )
            raise BadInput(f"{text!r} has no order of its own", hint=hint)
    names = [name for piece in pieces for name in expand(piece)]
    return tuple(dict.fromkeys(names))


def fold(names: Iterable[str]) -> str:
    """Return names as one node set: n1, n2, n3 as "n[1-3]"; the way back from `expand`, ordered."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
