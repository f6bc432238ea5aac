"""Node sets as admins write them, n[001-064] or @rack1, in the syntax of ClusterShell."""

from collections.abc import Iterable

from offpeak.errors import BadInput


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node set in its own order, "n[1-3]" as n1, n2, n3; BadInput if it is none or empty."""
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


def fold(names: Iterable[str]) -> str:
    """Return names as one node set: n1, n2, n3 as "n[1-3]"; the way back from `expand`, ordered."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
