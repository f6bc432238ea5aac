"""Changes to OpenPBS's nodes, each looked at directly before: what somebody else set offline stays as it is.

A closed node is in the state `sleep` already: it gets no new job, and those that run there go on. When it is off and
its daemon registers again, the server itself ends that state.
"""

from collections.abc import Callable, Mapping, Sequence

from plugin.openpbs.node_marks import mark_text
from plugin.openpbs.resources import NODE
from plugin.pbs.ask import PbsCommands, failure
from plugin.pbs.marks import Kind, Mark
from plugin.pbs.told import one_line
from plugin.scheduler.node import Node
from plugin.scheduler.node_changes import is_done, refusal
from plugin.scheduler.port import NodeChange


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
    troubles = {node: refusal(node, present, change) for node in nodes}
    for node in nodes:
        if not troubles[node] and not is_done(present[node], change):
            troubles[node] = _tell(directives(node, change, reason, now_s), commands)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def directives(node: str, change: NodeChange, reason: str, now_s: int) -> tuple[str, ...]:
    """Return what qmgr is told, in this order; each is done as a whole or not at all."""
    comment = f'comment = "{one_line(reason)}"'
    match change:
        case NodeChange.CLOSE:
            return (f"set node {node} {_mark(Kind.CLOSED, now_s)}, {comment}, state = sleep",)
        case NodeChange.POWER_DOWN:
            return (f"set node {node} {_mark(Kind.ASLEEP, now_s)}, {comment}, state = sleep",)
        case NodeChange.POWER_UP:
            return (f"set node {node} {_mark(Kind.WAKES, now_s)}, {comment}",)
        case NodeChange.OPEN | NodeChange.RESUME:
            return (f"set node {node} state = free", f"unset node {node} resources_available.{NODE}, comment")


def _mark(kind: Kind, now_s: int) -> str:
    return f"resources_available.{NODE} = {mark_text(Mark(kind, now_s))}"


def _tell(orders: Sequence[str], commands: PbsCommands) -> str:
    for order in orders:
        said = commands.tell("qmgr", "-c", order)
        if said.code or said.complaints:
            return str(failure("qmgr", said))
    return ""
