"""Changes to OpenPBS's nodes, each looked at directly before: what somebody else set offline stays as it is.

A closed node is in the state `sleep` already: it gets no new job, and those that run there go on. When it is off and
its daemon registers again, the server itself ends that state.

The word `sleep` is added and removed, and only where that changes something. `state = sleep` and `state = free` write
over all words of the state: over the server's own `down` too, which it does not notice a second time.
"""

from collections.abc import Callable, Mapping, Sequence

from plugin.openpbs.node_marks import mark_text
from plugin.openpbs.nodes_json import SLEEP
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
            sleeps = SLEEP in present[node].state_word.split(",")
            troubles[node] = _tell(directives(node, change, reason, now_s, sleeps=sleeps), commands)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def directives(node: str, change: NodeChange, reason: str, now_s: int, *, sleeps: bool) -> tuple[str, ...]:
    """Return what qmgr is told, in this order; each is done as a whole or not at all.

    `sleeps`: the node is in the state `sleep`, perhaps among others.
    """
    comment = f'comment = "{one_line(reason)}"'
    shut = "" if sleeps else f", state += {SLEEP}"
    match change:
        case NodeChange.CLOSE:
            return (f"set node {node} {_mark(Kind.CLOSED, now_s)}, {comment}{shut}",)
        case NodeChange.POWER_DOWN:
            return (f"set node {node} {_mark(Kind.ASLEEP, now_s)}, {comment}{shut}",)
        case NodeChange.POWER_UP:
            return (f"set node {node} {_mark(Kind.WAKES, now_s)}, {comment}",)
        case NodeChange.OPEN | NodeChange.RESUME:
            opens = (f"set node {node} state -= {SLEEP}",) if sleeps else ()
            return (*opens, f"unset node {node} resources_available.{NODE}, comment")


def _mark(kind: Kind, now_s: int) -> str:
    return f"resources_available.{NODE} = {mark_text(Mark(kind, now_s))}"


def _tell(orders: Sequence[str], commands: PbsCommands) -> str:
    for order in orders:
        said = commands.tell("qmgr", "-c", order)
        if said.code or said.complaints:
            return str(failure("qmgr", said))
    return ""
