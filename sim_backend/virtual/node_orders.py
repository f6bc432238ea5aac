"""What a virtual node does when it is told to: on, off, cycle, reset, suspend. One that makes no sense does nothing."""

from dataclasses import replace

from offpeak.errors import NotSupported
from offpeak.model.node_class import SleepDepth
from offpeak.model.node_states import ACTIVE, DEPTHS, OFF, STANDBY, asleep, coming_up, going_down
from sim_backend.virtual.node import Fate, VirtualNode, advance, changed, depth_of, in_transition, never_fails, woken


def told_on(node: VirtualNode, now_s: float, fate: Fate = never_fails) -> VirtualNode:
    """Return a sleeping node on its way up. While it shuts down the order is dropped, or waits, as the node is made."""
    node = advance(node, now_s)
    depth = depth_of(node)
    if depth is None:
        return node
    if node.state == going_down(depth.depth):
        return node if node.drops_early_on else replace(node, wakes_next=True)
    return woken(node, now_s, fate)


def told_soft_off(node: VirtualNode, now_s: float, fate: Fate = never_fails) -> VirtualNode:
    """Return a node that is up on its way off. Any other has no system that would hear of it."""
    return _down(advance(node, now_s), OFF, now_s, fate)


def told_suspend(node: VirtualNode, now_s: float, fate: Fate = never_fails) -> VirtualNode:
    """Return a node that is up on its way into standby; NotSupported if its class has none."""
    return _down(advance(node, now_s), STANDBY, now_s, fate)


def told_hard_off(node: VirtualNode, now_s: float) -> VirtualNode:
    """Return the node without power, at once."""
    node = advance(node, now_s)
    _depth(node, OFF)
    return node if node.state == asleep(OFF) else changed(node, now_s, state=asleep(OFF))


def told_reset(node: VirtualNode, now_s: float, fate: Fate = never_fails) -> VirtualNode:
    """Return the node as it boots anew, as a power cycle makes it too; nothing happens where it has no power."""
    node = advance(node, now_s)
    if node.state in (asleep(OFF), asleep(STANDBY)):
        return node
    return in_transition(node, now_s, coming_up(OFF), _depth(node, OFF).leave, fate)


def _down(node: VirtualNode, depth: int, now_s: float, fate: Fate) -> VirtualNode:
    enter = _depth(node, depth).enter
    if node.state != ACTIVE:
        return node
    return in_transition(node, now_s, going_down(depth), enter, fate)


def _depth(node: VirtualNode, number: int) -> SleepDepth:
    depth = node.node_class.find_depth(number)
    if depth is None:
        name = node.node_class.name
        raise NotSupported(
            f"{name}: this node class has no {DEPTHS[number]}", hint="choose another class, such as server"
        )
    return depth
