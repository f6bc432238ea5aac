"""Changes to nodes, each looked at directly before: what somebody else closed or took down stays as it is."""

from collections.abc import Mapping, Sequence

from plugin.scheduler.node import OURS, Node, NodePower
from plugin.scheduler.port import NodeChange
from plugin.slurm import nodes_text
from plugin.slurm.ask import ask
from plugin.slurm.change_jobs import Telling
from plugin.slurm.nodes_text import nodes_of_text
from plugin.slurm.told import complaint_of_one

STATES = {
    NodeChange.CLOSE: "drain",
    NodeChange.OPEN: "undrain",
    NodeChange.POWER_DOWN: "power_down",
    NodeChange.POWER_UP: "power_up",
    NodeChange.RESUME: "resume",
}
# They also replace a reason, or end a state, that somebody else has set.
ON_REASON = (NodeChange.CLOSE, NodeChange.OPEN, NodeChange.RESUME)
# Slurm's own reasons for nodes that did not answer.
SLURMS = ("ResumeTimeout reached", "Not responding", "Node unexpectedly rebooted")

_OF_NODES = "slurm_update error: "


def change_nodes(nodes: Sequence[str], change: NodeChange, *, reason: str, telling: Telling) -> dict[str, str]:
    """Tell Slurm of these nodes and return why not, by node.

    Each is told by a process of its own: scontrol does not say which node of a list it refuses.
    """
    known = {
        node.name: node for node in nodes_of_text(ask("scontrol", *nodes_text.ARGUMENTS, timeout_s=telling.timeout_s))
    }
    troubles = {node: _refusal(node, known, change) for node in nodes}
    for node in nodes:
        if not troubles[node] and not _is_done(known[node], change):
            troubles[node] = _tell(node, change, reason, telling)
    return {node: trouble for node, trouble in troubles.items() if trouble}


def _refusal(name: str, known: Mapping[str, Node], change: NodeChange) -> str:
    node = known.get(name)
    if node is None:
        return "Slurm has no such node"
    who = f"{node.reason_by or 'somebody'}: {node.reason}"
    if node.closed and not node.closed_by_us and change in ON_REASON:
        return f"was closed by {who}"
    if node.failed and node.reason and not node.reason.startswith((OURS, *SLURMS)) and change in ON_REASON:
        return f"was taken down by {who}"
    if change is NodeChange.POWER_UP and node.power is NodePower.GOING_DOWN:
        return "still powers down, and Slurm would forget the order"
    return ""


def _is_done(node: Node, change: NodeChange) -> bool:
    match change:
        case NodeChange.CLOSE:
            return node.closed
        case NodeChange.OPEN:
            return not node.closed
        case NodeChange.RESUME:
            return not node.failed
        case NodeChange.POWER_DOWN:
            # Once more, and Slurm would power it down again, perhaps just when it has been woken.
            return node.power in (NodePower.ASKED_DOWN, NodePower.GOING_DOWN, NodePower.DOWN)
        case NodeChange.POWER_UP:
            return node.power in (NodePower.ASKED_UP, NodePower.COMING_UP, NodePower.UP)


def _tell(node: str, change: NodeChange, reason: str, telling: Telling) -> str:
    arguments = ["update", f"nodename={node}", f"state={STATES[change]}"]
    if change is NodeChange.CLOSE:
        arguments.append(f"reason={' '.join(reason.split())}")
    said = complaint_of_one(arguments, _OF_NODES, command=telling.command, timeout_s=telling.timeout_s)
    return said.rpartition(_OF_NODES)[2]
