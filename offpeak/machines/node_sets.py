"""Node sets as admins write them, n[001-064] or @rack1, in the syntax of ClusterShell.

What a set names is counted from its ranges before any name is made: n[1-99999999] costs neither memory nor time.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from offpeak.errors import BadInput

MOST_NODES = 100_000
"""No node set names more."""
LONGEST_NUMBER = 18
"""Digits of a number in a range that is counted; longer ones count as too many."""

LONGEST_SHOWN = 100

_PIECE = re.compile(r"(?:[^,!&^\[\]\s]|\[[^\[\]]*\]?)+")
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*(?:/\s*(\d+))?\s*", re.ASCII)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_STARTS = re.compile(r"(?:^|,)(\d+)")
_OTHER_OPERATORS = re.compile(r"[!&^@*]")


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node set, ascending, "n[1-3]" as n1, n2, n3. Raises BadInput if it is invalid or empty."""
    _check_count(most_names(text), text)
    # It reads its configuration when it is imported, which `offpeak --version` must not wait for.
    from ClusterShell.NodeSet import NodeSet, NodeSetException, std_group_resolver
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    try:
        names = tuple(NodeSet(text, autostep=None, resolver=_BoundedGroups(std_group_resolver(), text)))
    except (NodeSetException, GroupResolverError, GroupSourceError, ValueError) as problem:
        hint = "write node sets as n[001-064], n1,n3 or @group"
        raise BadInput(f"{_short(text)} is not a node set: {_short(str(problem))}", hint=hint) from None
    if not names:
        raise BadInput(f"{_short(text)} names no node", hint="write node sets as n[001-064], n1,n3 or @group")
    return names


def most_names(text: str) -> int:
    """Return an upper bound for the number of names of a node set, without expanding it; a group counts as one."""
    return sum(
        math.prod(_count_numbers(ranges) for ranges in _BRACKETS.findall(piece)) for piece in _PIECE.findall(text)
    )


def _count_numbers(ranges: str) -> int:
    count = 0
    for piece in ranges.split(","):
        numbers = _RANGE.fullmatch(piece)
        if numbers is None:
            count += 1
        elif max(map(len, filter(None, numbers.groups()))) > LONGEST_NUMBER:
            return MOST_NODES + 1
        else:
            first, last, step = (int(group or 1) for group in numbers.groups())
            count += max(0, last - first) // max(1, step) + 1
    return count


def _check_count(count: int, text: str) -> None:
    if count > MOST_NODES:
        hint = "is a range too long, as in n[1-99999999]?"
        raise BadInput(f"{_short(text)} names more than {MOST_NODES:,} nodes", hint=hint)


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")


class _BoundedGroups:
    """A group resolver of ClusterShell that counts the names of groups before they are expanded."""

    def __init__(self, resolver: Any, text: str) -> None:
        self._resolver, self._text, self._count = resolver, text, 0

    def group_nodes(self, group: str, namespace: str | None = None) -> list[str]:
        return self._counted(self._resolver.group_nodes(group, namespace))

    def all_nodes(self, namespace: str | None = None) -> list[str]:
        return self._counted(self._resolver.all_nodes(namespace))

    def _counted(self, pieces: list[str]) -> list[str]:
        self._count += sum(map(most_names, pieces))
        _check_count(self._count, self._text)
        return pieces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resolver, name)


def expand_in_order(text: str) -> tuple[str, ...]:
    """Return the names of a node set in the order in which they are written, so that two sets can be matched by
    position.

    Raises BadInput like `expand`, and for sets without such an order: n[3-1], n[3,1], operators but the comma.
    """
    _check_count(most_names(text), text)
    # Split at commas, except those within brackets.
    pieces = [""]
    for part in re.split(r"(\[[^\[\]]*\])", text):
        first, *rest = [part] if part.startswith("[") and part.endswith("]") else part.split(",")
        pieces[-1] += first
        pieces += rest
    for piece in pieces:
        starts = [[int(start) for start in _STARTS.findall(ranges)] for ranges in _BRACKETS.findall(piece)]
        if any(start != sorted(start) for start in starts) or _OTHER_OPERATORS.search(piece):
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


_PLAIN_NAME = re.compile(r"[\w.:=/+-]+")


def fold_names(names: Iterable[str]) -> str:
    """Return any names as `fold` does, such as "p[1-2,10]" for partitions; names that no node could have stay whole."""
    every = set(names)
    plain = {name for name in every if _PLAIN_NAME.fullmatch(name)}
    return ",".join([*([fold(plain)] if plain else []), *sorted(every - plain)])
