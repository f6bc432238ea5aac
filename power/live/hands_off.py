"""Whose hands are on a node: why the power loop leaves it as it is."""

from offpeak.door.effect import ADMIN
from plugin.scheduler.node import Node, NodeUse
from power.lifecycle.life import NodeLife, NodeState, Now, is_goal


def untouchable(node: Node, life: NodeLife | None, now: Now) -> str:
    """Return why nothing at all is done with it, also where the scheduler has it come up; "" if something may be."""
    if life is None or life.seen.state is NodeState.UNKNOWN:
        trouble = "" if life is None else life.seen.trouble
        return f"its state is not known: {trouble}" if trouble else "its state is not known"
    if life.hold is not None and is_held(life, now):
        return f"held by {life.hold.owner}: {life.hold.reason}"
    if node.use is NodeUse.UNKNOWN:
        return f"nobody knows whether a job is there: the scheduler says {node.state_word}"
    return ""


def is_held(life: NodeLife, now: Now) -> bool:
    """Whether an admin's hold is in force."""
    return life.hold is not None and life.hold.lasts(now.unix_s)


def in_other_hands(node: Node, life: NodeLife, now: Now) -> str:
    """Return who else has it, in words; "" if nobody. It is woken all the same where the scheduler asks for that."""
    if node.closed and not node.closed_by_us:
        return f"closed by {node.reason_by or 'somebody'}: {node.reason}"
    wish = life.wish
    if wish is not None and wish.by.startswith(ADMIN) and not is_goal(wish.order, life.seen.state):
        return f"{wish.by} has ordered {wish.order}"
    if now.monotonic_s < life.hands_off_until_s:
        return "somebody else changed it: hands off for a while"
    return ""
