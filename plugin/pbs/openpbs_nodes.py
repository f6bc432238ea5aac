"""Parses the nodes of OpenPBS's `pbsnodes -a -F json`, and changes their state.

Each node is one record, read directly before its change: what somebody else set offline stays as it is. A closed node
is in the state `sleep` already: it gets no new job, and the jobs that run there go on. When it is off and its daemon
registers again, the server itself ends that state. A change adds or removes the word `sleep`, and only where that
changes something: `state = sleep` and `state = free` overwrite all words of the state, also the server's own `down`,
which it does not notice a second time.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from offpeak.model.orders import NodeChange
from plugin.pbs.commands import CannotAskPbs, PbsCommands, failure, one_line
from plugin.pbs.fields import Record, as_int, as_text, json_part, json_records, memory_mib, parse_json
from plugin.pbs.node_marks import MarkKind, NodeMark, derive_node_state, format_openpbs_mark, parse_openpbs_mark
from plugin.pbs.openpbs_server import NODE_RESOURCE, OUR_RESOURCES
from plugin.scheduler.node import OURS as OUR_REASON
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import change_refusal, is_change_done

PBSNODES_ARGUMENTS = ("-a", "-F", "json")
PBSNODES_ONE = ("-F", "json")
"""The same of the nodes that are named after it."""

DOWN, OFFLINE, SLEEP = "down", "offline", "sleep"
FAILED = frozenset({DOWN, "stale", "unresolvable"})
USED = frozenset({"job-busy", "job-exclusive", "busy"})
RESERVED = frozenset({"resv-exclusive", "maintenance"})
KNOWN = FAILED | USED | RESERVED | {OFFLINE, SLEEP, "free"}

# They say how much a node has, or who it is, not of what kind it is.
_NO_FEATURES = OUR_RESOURCES | {"arch", "host", "vnode", "mem", "vmem", "ncpus"}


def nodes_of_json(answer: bytes, *, queues: Sequence[str], now_s: int, boot_s: int) -> tuple[Node, ...]:
    """Return the nodes of pbsnodes' answer; CannotAskPbs where it is no JSON.

    A node without a queue is in all that have no nodes of their own.
    """
    found = json_records(parse_json(answer, source="pbsnodes -a -F json"), "nodes")
    own = {as_text(told.get("queue")) for told in found.values()}
    others = tuple(queue for queue in queues if queue not in own)
    return tuple(_node(name, told, others, now_s, boot_s) for name, told in found.items())


def given_of_json(answer: bytes, node: str) -> list[str]:
    """Return what the node's own record says that jobs have of it, [] for nothing.

    CannotAskPbs where the record lacks what says so, or its state is not known.
    """
    told = json_records(parse_json(answer, source="pbsnodes -a -F json"), "nodes").get(node, {})
    words = frozenset(as_text(told.get("state")).split(","))
    given = told.get("resources_assigned")
    if not words <= KNOWN or not isinstance(given, dict):
        what = f"in the state {as_text(told.get('state'))!r}, with resources_assigned {given!r}"
        raise CannotAskPbs(f"pbsnodes: shows {node} {what}", hint=f"look at it: pbsnodes {node}")
    jobs = told.get("jobs")
    found = [f"state {word}" for word in sorted(words & (USED | RESERVED))]
    found += [f"jobs {jobs}"] if jobs else []
    return found + [f"resources_assigned.{name} {value}" for name, value in given.items() if not _is_nothing(value)]


def _is_nothing(value: object) -> bool:
    return re.fullmatch(r"0+(\.0*)?([kmgtp]?[bw])?", as_text(value), re.IGNORECASE) is not None


def _node(name: str, told: Record, queues: tuple[str, ...], now_s: int, boot_s: int) -> Node:
    words = frozenset(as_text(told.get("state")).split(","))
    has, given = json_part(told, "resources_available"), json_part(told, "resources_assigned")
    comment, mark = as_text(told.get("comment")), parse_openpbs_mark(as_text(has.get(NODE_RESOURCE)))
    stands = derive_node_state(
        # Somebody who sets it offline besides has it then.
        None if OFFLINE in words else mark,
        shut=bool(words & {SLEEP, OFFLINE}),
        down=bool(words & FAILED),
        # The server itself ends the state sleep when the node's daemon registers again.
        heard=False,
        late=mark is not None and now_s - mark.since_s > boot_s,
    )
    own_queue = as_text(told.get("queue"))
    jobs = told.get("jobs")
    use = NodeUse.USED if jobs or words & USED or as_int(given.get("ncpus")) else NodeUse.FREE
    ours = mark is not None and SLEEP in words and OFFLINE not in words
    return Node(
        name=name,
        native_state=as_text(told.get("state")),
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
        cpus=as_int(has.get("ncpus")),
        cpus_used=as_int(given.get("ncpus")),
        memory_mib=memory_mib(has.get("mem")),
        boot_s=None,
        idle_since_s=as_int(told.get("last_used_time")) or None if use is NodeUse.FREE else None,
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
    return [word for word in as_text(value).split(",") if word] if isinstance(value, str) and value != "False" else []


def change_nodes(
    nodes: Sequence[str],
    change: NodeChange,
    *,
    reason: str,
    known: Callable[[], Mapping[str, Node]],
    commands: PbsCommands,
    now_s: int,
) -> dict[str, str]:
    """Tell the server of these nodes and return why not, by node."""
    present = known()
    troubles = {node: change_refusal(node, present, change) for node in nodes}
    for node in nodes:
        if not troubles[node] and not is_change_done(present[node], change):
            sleeps = SLEEP in present[node].native_state.split(",")
            troubles[node] = _run_qmgr(qmgr_directives(node, change, reason, now_s, sleeps=sleeps), commands)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def qmgr_directives(node: str, change: NodeChange, reason: str, now_s: int, *, sleeps: bool) -> tuple[str, ...]:
    """Return what qmgr is told, in this order; each is done as a whole or not at all.

    `sleeps`: the node is in the state `sleep`, perhaps among others.
    """
    comment = f'comment = "{one_line(reason)}"'
    shut = "" if sleeps else f", state += {SLEEP}"
    match change:
        case NodeChange.CLOSE:
            return (f"set node {node} {_mark_assignment(MarkKind.CLOSED, now_s)}, {comment}{shut}",)
        case NodeChange.POWER_DOWN:
            return (f"set node {node} {_mark_assignment(MarkKind.ASLEEP, now_s)}, {comment}{shut}",)
        case NodeChange.POWER_UP:
            return (f"set node {node} {_mark_assignment(MarkKind.WAKES, now_s)}, {comment}",)
        case NodeChange.OPEN | NodeChange.RESUME:
            opens = (f"set node {node} state -= {SLEEP}",) if sleeps else ()
            return (*opens, f"unset node {node} resources_available.{NODE_RESOURCE}, comment")


def _mark_assignment(kind: MarkKind, now_s: int) -> str:
    return f"resources_available.{NODE_RESOURCE} = {format_openpbs_mark(NodeMark(kind, now_s))}"


def _run_qmgr(orders: Sequence[str], commands: PbsCommands) -> str:
    for order in orders:
        said = commands.tell("qmgr", "-c", order)
        if said.code or said.complaints:
            return str(failure("qmgr", said))
    return ""
