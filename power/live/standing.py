"""How a node stands in its pool: the state that a capacity policy is told, from the BMC and the scheduler together."""

from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from plugin.scheduler.node import Node, NodePower, NodeUse
from power.lifecycle.life import ASLEEP, NodeLife, NodeState, Now
from power.live.hands_off import is_held
from power.live.next_step import is_let_in_again
from power.live.words import is_awaited

RISING = frozenset({coming_up(STANDBY), coming_up(OFF)})
SEEN_AS = {
    NodeState.OFF: asleep(OFF),
    NodeState.STANDBY: asleep(STANDBY),
    NodeState.GOING_DOWN: going_down(OFF),
    NodeState.BOOTING: coming_up(OFF),
}


def standing(node: Node, life: NodeLife | None, now: Now) -> int:
    """Return the node's state as in offpeak.model.node_states; FAILED where jobs cannot count on it.

    A node whose BMC is silent is what the scheduler says. With a job it is up, or on its way.
    """
    if _is_lost(node, life, now):
        return FAILED
    seen = NodeState.UNKNOWN if life is None else life.seen.state
    if is_awaited(node):
        return coming_up(STANDBY if seen is NodeState.STANDBY else OFF)
    if node.use is NodeUse.USED:
        return ACTIVE
    if life is not None and is_let_in_again(node, life, now):
        return ACTIVE
    return SEEN_AS.get(seen) or _said(node, seen)


def _is_lost(node: Node, life: NodeLife | None, now: Now) -> bool:
    """Whether the pool has to do without it."""
    if node.use is NodeUse.UNKNOWN or node.reserved or (node.closed and not node.closed_by_us):
        return True
    if life is not None and is_held(life, now):
        return True
    if node.power is not NodePower.UP or node.closed:
        return node.failed and not node.closed
    # Off and counted as up is somebody else's doing; what does not answer is about to count as failed.
    is_off = life is not None and life.seen.state in ASLEEP
    return node.failed or is_off or not node.responds


def _said(node: Node, seen: NodeState) -> int:
    """Return the state of a node that is on, or that nobody has seen."""
    if node.power is NodePower.UP:
        return going_down(OFF) if node.closed else ACTIVE
    return asleep(OFF) if node.power is NodePower.DOWN and seen is NodeState.UNKNOWN else going_down(OFF)
