"""Changes to Torque's nodes, each looked at directly before: what somebody else set offline stays as it is."""

from collections.abc import Callable, Mapping, Sequence

from plugin.pbs.ask import PbsCommands, failure
from plugin.pbs.marks import Kind, Mark
from plugin.pbs.told import one_line
from plugin.scheduler.node import Node
from plugin.scheduler.node_changes import is_done, refusal
from plugin.scheduler.port import NodeChange
from plugin.torque.notes import note_of

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
    troubles = {node: refusal(node, present, change) for node in nodes}
    for node in nodes:
        if not troubles[node] and not is_done(present[node], change):
            troubles[node] = _tell(node, _words(change, reason, now_s), commands)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def _words(change: NodeChange, reason: str, now_s: int) -> tuple[str, ...]:
    match change:
        case NodeChange.CLOSE:
            return "-o", "-N", one_line(reason)
        case NodeChange.POWER_DOWN:
            return "-o", "-N", note_of(Mark(Kind.ASLEEP, now_s))
        case NodeChange.POWER_UP:
            return "-o", "-N", note_of(Mark(Kind.WAKES, now_s))
        case NodeChange.OPEN | NodeChange.RESUME:
            return "-c", "-N", NO_NOTE


def _tell(node: str, words: tuple[str, ...], commands: PbsCommands) -> str:
    said = commands.tell("pbsnodes", *words, node)
    return str(failure("pbsnodes", said)) if said.code or said.complaints else ""
