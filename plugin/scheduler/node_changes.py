"""What of a change to a node is refused, or done already, before the scheduler is told of it."""

from collections.abc import Mapping

from plugin.scheduler.node import Node, NodePower
from plugin.scheduler.port import NodeChange

UP = (NodePower.UP, NodePower.ASKED_UP, NodePower.COMING_UP)


def refusal(name: str, known: Mapping[str, Node], change: NodeChange) -> str:
    """Return why a node is not changed, "" if it may be: all changes write over what somebody else has set."""
    node = known.get(name)
    if node is None:
        return "there is no such node"
    if node.closed and not node.closed_by_us:
        return f"was closed by {node.reason_by or 'somebody'}: {node.reason}"
    if node.failed and node.power is NodePower.UP and not node.closed and change is NodeChange.RESUME:
        return f"is down: {node.reason}"
    return ""


def is_done(node: Node, change: NodeChange) -> bool:
    """Whether the node is as the change would have it."""
    match change:
        case NodeChange.CLOSE:
            return node.closed
        case NodeChange.OPEN:
            return not node.closed
        case NodeChange.RESUME:
            return not node.failed
        case NodeChange.POWER_DOWN:
            return node.power is NodePower.DOWN and not node.failed
        case NodeChange.POWER_UP:
            return node.power in UP
