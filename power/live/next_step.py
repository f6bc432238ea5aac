"""The next step of one node between scheduler and BMC, decided anew from what both of them say.

To sleep: CLOSE, then the BMC's order once no job can be there, then POWER_DOWN, then OPEN: from now on a job that is
given the node has it woken. To wake: POWER_UP, the scheduler has it come up, and so the life cycle wants it on. Nothing
is remembered between the steps, so a kill between any two of them leaves a state that is gone on from.

A node that an admin orders to sleep is closed with a job on it, too, and the order waits for that job's end; of one
that he wakes the scheduler is told before it boots.
"""

from dataclasses import dataclass
from enum import StrEnum

from offpeak.door.effect import ADMIN, SCHEDULER, US
from plugin.scheduler.node import OURS, Node, NodePower, NodeUse
from plugin.scheduler.port import NodeChange
from power.drivers.port import Order
from power.lifecycle.life import ASLEEP, NodeLife, NodeState, Now
from power.live.hands_off import in_other_hands, is_held, untouchable
from power.live.words import is_awaited

MAY_STILL_FOLLOW_S = 600.0
"""So long after an order to sleep whose answer was lost, or that was not followed in time, no job is let in again."""

CAME_UP_LATE = "it came up too late for the scheduler, and is well now"
NOT_UP = "it did not come up in time: look at its console; as soon as it is up it is tried again"
NOT_HEARD = "it did not come up in time: look at its console, and switch it off if it is up, for it has to boot anew"


class Want(StrEnum):
    """What the power loop wants of a node. UP is no order: a node that is up is left alone, others are woken."""

    UP = "up"
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True)
class Step:
    """What is done of a node now: the wish of the life cycle with whose it is, what the scheduler is told, and why."""

    order: Order | None = None
    change: NodeChange | None = None
    why: str = ""
    by: str = US


def next_step(node: Node, life: NodeLife | None, want: Want, *, now: Now, order: Order = Order.SOFT_OFF) -> Step:
    """Return the next step towards what is wanted; `order` is how it goes to sleep. Nothing is wanted of what others
    have, but that the scheduler has it come up is followed."""
    why = untouchable(node, life, now)
    if life is None:
        return Step(why=why)
    if why:
        # A hold keeps the node's power as it is, and not the node closed for a sleep that is called off.
        opens = is_held(life, now) and node.use is not NodeUse.UNKNOWN and is_let_in_again(node, life, now)
        return Step(change=NodeChange.OPEN if opens else None, why=why)
    if is_awaited(node):
        opened = NodeChange.OPEN if node.closed_by_us else None
        return Step(Order.ON, opened, "the scheduler has it come up", SCHEDULER)
    why = in_other_hands(node, life, now)
    if why:
        return Step(change=for_an_admin(node, life), why=why)
    if node.failed and not node.closed_by_us and not _is_forgotten(node, life):
        return _failed(node, life)
    want = Want.UP if node.reserved else want
    sleeps = Step(order, why=f"it goes to sleep: {order}")
    if node.power is not NodePower.UP:
        return _counts_as_down(node, life, want, sleeps)
    return _closed_and_up(node, life, want, sleeps, now) if node.closed else _open_and_up(node, life, want)


def for_an_admin(node: Node, life: NodeLife) -> NodeChange | None:
    """Return what the scheduler is told so that an admin's order can be followed: before it, none comes too late."""
    if life.wish is None or not life.wish.by.startswith(ADMIN) or node.closed or node.failed or node.reserved:
        return None
    if life.wish.order is Order.ON:
        return NodeChange.POWER_UP if node.power is NodePower.DOWN and life.seen.state in ASLEEP else None
    return NodeChange.CLOSE if node.power is NodePower.UP and life.seen.state is NodeState.ON else None


def _failed(node: Node, life: NodeLife) -> Step:
    if node.power is NodePower.UP:
        return Step(why=f"the scheduler counts it as failed: {node.reason or node.state_word}")
    # That it has power does not say that it has come up: one that hangs in its boot has power too.
    if life.seen.state is NodeState.ON:
        return Step(change=NodeChange.RESUME, why=CAME_UP_LATE) if node.responds else Step(why=NOT_HEARD)
    return Step(why=NOT_UP)


def _is_forgotten(node: Node, life: NodeLife) -> bool:
    """Whether it sleeps by our order, and the scheduler, which has lost its memory since, counts it as broken."""
    if node.power is NodePower.DOWN:
        # One that did not come up in time has another reason than ours.
        silent = node.reason.startswith(OURS)
    else:
        silent = node.power is NodePower.UP and not node.responds
    return silent and life.seen.state in ASLEEP and life.seen.by == US


def _counts_as_down(node: Node, life: NodeLife, want: Want, sleeps: Step) -> Step:
    """Return the step of a node that the scheduler takes for powered down, or will."""
    state = life.seen.state
    if node.use is NodeUse.USED:
        return Step(why="it is to go down when its jobs have ended")
    if state is NodeState.BOOTING:
        return Step(why="it boots, and nobody here asked for that")
    if state is NodeState.ON and not node.closed:
        if node.reserved:
            return Step(why="it is up, counts as powered down, and is reserved")
        return Step(change=NodeChange.CLOSE, why="it is up, and the scheduler counts it as powered down")
    if state not in ASLEEP or node.power is not NodePower.DOWN:
        return sleeps
    return _asleep(node, want, sleeps)


def _asleep(node: Node, want: Want, sleeps: Step) -> Step:
    if node.failed:
        return Step(sleeps.order, NodeChange.RESUME, "it sleeps, and the scheduler counts it as failed")
    if node.closed:
        return Step(sleeps.order, NodeChange.OPEN, "it sleeps: a job that is given it has it woken")
    if want is Want.UP:
        return Step(sleeps.order, NodeChange.POWER_UP, "it is to wake")
    return Step(sleeps.order, why="it sleeps")


def _closed_and_up(node: Node, life: NodeLife, want: Want, sleeps: Step, now: Now) -> Step:
    """Return the step of a node that we have closed and that the scheduler takes for up."""
    state = life.seen.state
    if state is NodeState.BOOTING:
        return Step(why="it boots")
    if state is not NodeState.ON and node.use is not NodeUse.FREE:
        return Step(why=f"the scheduler has a job there, and it is {state}")
    if state in ASLEEP:
        return Step(sleeps.order, NodeChange.POWER_DOWN, "it is off: the scheduler is told")
    if state is NodeState.GOING_DOWN or (want is Want.ASLEEP and node.use is NodeUse.FREE):
        return sleeps
    if may_still_go_down(life, now):
        return Step(why="it may still follow an order to sleep")
    return Step(change=NodeChange.OPEN, why="it stays up")


def _open_and_up(node: Node, life: NodeLife, want: Want) -> Step:
    state = life.seen.state
    if node.use is not NodeUse.FREE:
        return Step(why="a job runs there")
    if node.reserved:
        return Step(why="it is reserved")
    if state is NodeState.ON and want is Want.ASLEEP:
        return Step(change=NodeChange.CLOSE, why="it is to sleep")
    if state in ASLEEP and life.seen.by == US:
        return Step(change=NodeChange.CLOSE, why="it is off, and the scheduler counts on it")
    return Step(why="it stays as it is")


def is_let_in_again(node: Node, life: NodeLife, now: Now) -> bool:
    """Whether it is up and closed by us, and nothing but our own wish may keep it closed."""
    is_up = life.seen.state is NodeState.ON and node.power is NodePower.UP and node.responds and not node.failed
    return is_up and node.closed_by_us and not may_still_go_down(life, now) and not in_other_hands(node, life, now)


def may_still_go_down(life: NodeLife, now: Now) -> bool:
    """Whether an order to sleep was sent so lately that the node may follow it yet, whatever it looks like."""
    sent = life.sent
    return sent is not None and sent.order is not Order.ON and now.monotonic_s - sent.at_s < MAY_STILL_FOLLOW_S
