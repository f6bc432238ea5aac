"""Parses the nodes of Torque's `pbsnodes -x`, and changes their state.

Each node is one record, read directly before its change: what somebody else set offline stays as it is.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from offpeak.model.orders import NodeChange
from plugin.pbs.commands import CannotAskPbs, PbsCommands, failure, one_line
from plugin.pbs.fields import as_int, memory_mib, xml_fields, xml_records
from plugin.pbs.node_marks import MarkKind, NodeMark, derive_node_state, format_torque_note, parse_torque_note
from plugin.scheduler.node import Node, NodePower, NodeUse
from plugin.scheduler.port import change_refusal, is_change_done

PBSNODES_ARGUMENTS = ("-x",)

DOWN, OFFLINE = "down", "offline"
USED = frozenset({"job-exclusive", "job-sharing", "busy"})
RESERVED = "reserve"
KNOWN = USED | {DOWN, OFFLINE, RESERVED, "free", "time-shared"}
RUNNING = "Running"

# 0-3/31.head,4/32[1].head, and one slot each before 6.0: 0/31.head, 1/31.head
_SLOTS = re.compile(r"\s*([\d,-]+)/([^,]+)")
_STATUS = re.compile(r"(?:^|,)(\w+)=([^=]*)(?=,\w+=|$)")


def nodes_of_xml(answer: bytes, *, queues: Sequence[str], now_s: int, boot_s: int) -> tuple[Node, ...]:
    """Return the nodes of pbsnodes' answer, which belong to all queues; CannotAskPbs where it is no XML."""
    found = xml_records(answer, "Node", source="pbsnodes -x")
    return tuple(_node(xml_fields(each), tuple(queues), now_s, boot_s) for each in found)


def given_of_xml(answer: bytes, node: str) -> list[str]:
    """Return what the node's own record says that jobs have of it, [] for nothing.

    CannotAskPbs where the record has no state that is known.
    """
    found_nodes = {
        each.get("name"): each for each in map(xml_fields, xml_records(answer, "Node", source="pbsnodes -x"))
    }
    told = found_nodes.get(node, {})
    words = frozenset(told.get("state", "").split(","))
    if not words <= KNOWN:
        what = f"in the state {told.get('state', '')!r}"
        raise CannotAskPbs(f"pbsnodes: shows {node} {what}", hint=f"look at it: pbsnodes {node}")
    found = [f"state {word}" for word in sorted(words & (USED | {RESERVED}))]
    return found + ([f"jobs {told['jobs']}"] if told.get("jobs") else [])


def jobs_on(told: str) -> dict[str, int]:
    """Return how many slots each job has of a node's field `jobs`."""
    slots: dict[str, int] = {}
    for places, job in _SLOTS.findall(told):
        slots[job] = slots.get(job, 0) + sum(_count(place) for place in places.split(",") if place)
    return slots


def _count(place: str) -> int:
    first, _, last = place.partition("-")
    return int(last or first) - int(first) + 1


def status_of(told: str) -> dict[str, str]:
    """Return what a node's daemon reported last: a list with commas, of values with commas and spaces."""
    return dict(_STATUS.findall(told))


def _node(told: dict[str, str], queues: tuple[str, ...], now_s: int, boot_s: int) -> Node:
    words = frozenset(told.get("state", "").split(","))
    slots, status = jobs_on(told.get("jobs", "")), status_of(told.get("status", ""))
    note, mark = told.get("note", ""), parse_torque_note(told.get("note", ""))
    heard_s = as_int(status.get("rectime"))
    stands = derive_node_state(
        mark,
        shut=OFFLINE in words,
        down=DOWN in words,
        heard=mark is not None and heard_s > mark.since_s and told.get("power_state", RUNNING) == RUNNING,
        late=mark is not None and now_s - mark.since_s > boot_s,
    )
    power = stands.power
    if power is NodePower.UP and mark is None and told.get("power_state", RUNNING) != RUNNING:
        # Sent to sleep by somebody else's `pbsnodes -m`: Torque shows it as free and gives it no job.
        power = NodePower.DOWN
    use = NodeUse.USED if told.get("jobs") or words & USED else NodeUse.FREE
    return Node(
        name=told.get("name", ""),
        native_state=told.get("state", ""),
        use=use if words and words <= KNOWN else NodeUse.UNKNOWN,
        power=power,
        closed=stands.closed,
        failed=stands.failed,
        responds=DOWN not in words,
        reserved=RESERVED in words,
        # It was woken for something, has registered, and is only to be opened.
        planned=stands.closed and mark is not None and mark.kind is MarkKind.WAKES,
        reason=note or _own_reason(words),
        reason_by="",
        reason_s=mark.since_s if mark and mark.kind is not MarkKind.CLOSED else None,
        partitions=queues,
        features=tuple(word for word in told.get("properties", "").split(",") if word),
        cpus=as_int(told.get("np")),
        cpus_used=sum(slots.values()),
        memory_mib=memory_mib(status.get("physmem")),
        boot_s=None,
        idle_since_s=None,
    )


def _own_reason(words: frozenset[str]) -> str:
    return "its daemon does not answer" if DOWN in words else ("set offline" if OFFLINE in words else "")


NO_NOTE = ""


def change_nodes(
    nodes: Sequence[str],
    change: NodeChange,
    *,
    reason: str,
    known: Callable[[], Mapping[str, Node]],
    commands: PbsCommands,
    now_s: int,
) -> dict[str, str]:
    """Tell Torque of these nodes and return why not, by node: pbsnodes does not say which of several it refuses."""
    present = known()
    troubles = {node: change_refusal(node, present, change) for node in nodes}
    for node in nodes:
        if not troubles[node] and not is_change_done(present[node], change):
            troubles[node] = _run_pbsnodes(node, _pbsnodes_arguments(change, reason, now_s), commands)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def _pbsnodes_arguments(change: NodeChange, reason: str, now_s: int) -> tuple[str, ...]:
    match change:
        case NodeChange.CLOSE:
            return "-o", "-N", one_line(reason)
        case NodeChange.POWER_DOWN:
            return "-o", "-N", format_torque_note(NodeMark(MarkKind.ASLEEP, now_s))
        case NodeChange.POWER_UP:
            return "-o", "-N", format_torque_note(NodeMark(MarkKind.WAKES, now_s))
        case NodeChange.OPEN | NodeChange.RESUME:
            return "-c", "-N", NO_NOTE


def _run_pbsnodes(node: str, words: tuple[str, ...], commands: PbsCommands) -> str:
    said = commands.tell("pbsnodes", *words, node)
    return str(failure("pbsnodes", said)) if said.code or said.complaints else ""
