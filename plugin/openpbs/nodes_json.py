"""The nodes that OpenPBS's `pbsnodes -a -F json` tells, one record each."""

import re
from collections.abc import Sequence

from plugin.openpbs.answer_json import Record, answer_of, part, records
from plugin.openpbs.node_marks import mark_of
from plugin.openpbs.resources import NODE, OURS
from plugin.pbs.ask import CannotAskPbs
from plugin.pbs.marks import standing
from plugin.pbs.words import memory_mib, number, text
from plugin.scheduler.node import OURS as OUR_REASON
from plugin.scheduler.node import Node, NodeUse

ARGUMENTS = ("-a", "-F", "json")
ONE = ("-F", "json")
"""The same of the nodes that are named after it."""

DOWN, OFFLINE, SLEEP = "down", "offline", "sleep"
FAILED = frozenset({DOWN, "stale", "unresolvable"})
USED = frozenset({"job-busy", "job-exclusive", "busy"})
RESERVED = frozenset({"resv-exclusive", "maintenance"})
KNOWN = FAILED | USED | RESERVED | {OFFLINE, SLEEP, "free"}

# They say how much a node has, or who it is, not of what kind it is.
_NO_FEATURES = OURS | {"arch", "host", "vnode", "mem", "vmem", "ncpus"}


def nodes_of_json(answer: bytes, *, queues: Sequence[str], now_s: int, boot_s: int) -> tuple[Node, ...]:
    """Return the nodes of pbsnodes' answer; CannotAskPbs where it is no JSON.

    A node without a queue is in all that have no nodes of their own.
    """
    found = records(answer_of(answer, source="pbsnodes -a -F json"), "nodes")
    own = {text(told.get("queue")) for told in found.values()}
    others = tuple(queue for queue in queues if queue not in own)
    return tuple(_node(name, told, others, now_s, boot_s) for name, told in found.items())


def given_of_json(answer: bytes, node: str) -> list[str]:
    """Return what the node's own record says that jobs have of it, [] for nothing.

    CannotAskPbs where the record lacks what says so, or its state is not known.
    """
    told = records(answer_of(answer, source="pbsnodes -a -F json"), "nodes").get(node, {})
    words = frozenset(text(told.get("state")).split(","))
    given = told.get("resources_assigned")
    if not words <= KNOWN or not isinstance(given, dict):
        what = f"in the state {text(told.get('state'))!r}, with resources_assigned {given!r}"
        raise CannotAskPbs(f"pbsnodes: shows {node} {what}", hint=f"look at it: pbsnodes {node}")
    jobs = told.get("jobs")
    found = [f"state {word}" for word in sorted(words & (USED | RESERVED))]
    found += [f"jobs {jobs}"] if jobs else []
    return found + [f"resources_assigned.{name} {value}" for name, value in given.items() if not _is_nothing(value)]


def _is_nothing(value: object) -> bool:
    return re.fullmatch(r"0+(\.0*)?([kmgtp]?[bw])?", text(value), re.IGNORECASE) is not None


def _node(name: str, told: Record, queues: tuple[str, ...], now_s: int, boot_s: int) -> Node:
    words = frozenset(text(told.get("state")).split(","))
    has, given = part(told, "resources_available"), part(told, "resources_assigned")
    comment, mark = text(told.get("comment")), mark_of(text(has.get(NODE)))
    stands = standing(
        # Somebody who sets it offline besides has it then.
        None if OFFLINE in words else mark,
        shut=bool(words & {SLEEP, OFFLINE}),
        down=bool(words & FAILED),
        # The server itself ends the state sleep when the node's daemon registers again.
        heard=False,
        late=mark is not None and now_s - mark.since_s > boot_s,
    )
    own_queue = text(told.get("queue"))
    jobs = told.get("jobs")
    use = NodeUse.USED if jobs or words & USED or number(given.get("ncpus")) else NodeUse.FREE
    ours = mark is not None and SLEEP in words and OFFLINE not in words
    return Node(
        name=name,
        state_word=text(told.get("state")),
        use=use if words <= KNOWN else NodeUse.UNKNOWN,
        power=stands.power,
        closed=stands.closed,
        failed=stands.failed,
        responds=not words & FAILED,
        reserved=bool(words & RESERVED) or bool(told.get("resv")),
        planned=False,
        reason=_our_reason(comment) if ours else _their_reason(comment, words),
        reason_by="",
        reason_s=mark.since_s if ours and mark is not None else None,
        partitions=(own_queue,) if own_queue else queues,
        features=tuple(word for key, value in has.items() if key not in _NO_FEATURES for word in _features(key, value)),
        cpus=number(has.get("ncpus")),
        cpus_used=number(given.get("ncpus")),
        memory_mib=memory_mib(has.get("mem")),
        boot_s=None,
        idle_since_s=number(told.get("last_used_time")) or None if use is NodeUse.FREE else None,
    )


def _our_reason(comment: str) -> str:
    """Return the reason of a node that is ours: when it goes down the server puts its own words there."""
    return comment if comment.startswith(f"{OUR_REASON}:") else OUR_REASON


def _their_reason(comment: str, words: frozenset[str]) -> str:
    # When a node is back what we wrote stays behind.
    said = "" if comment.startswith(f"{OUR_REASON}:") else comment
    return said or f"state {','.join(sorted(words))}" if words & (FAILED | {OFFLINE, SLEEP}) else said


def _features(key: str, value: object) -> list[str]:
    if value in ("True", True):
        return [key]
    return [word for word in text(value).split(",") if word] if isinstance(value, str) and value != "False" else []
