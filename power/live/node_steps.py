"""The next step of a node between scheduler and BMC, and the node's state in its pool, from the reports of both.

To sleep: CLOSE, then the BMC's order once no job can be there, then POWER_DOWN, then OPEN: from now on a job that is
given the node has it woken. To wake: POWER_UP, the scheduler has the node come up, and so the life cycle wants it on.
Nothing is stored between the steps, so a kill between any two of them leaves a state from which the loop goes on.

An admin's order to sleep closes a node with a job on it, too, and waits for the end of that job. An admin's order to
wake is reported to the scheduler before the node boots.
"""

from dataclasses import dataclass
from enum import StrEnum

from offpeak.door.effect import ADMIN, SCHEDULER, US
from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.model.orders import NodeChange, NodeOrder
from plugin.scheduler.node import OURS, Node, NodePower, NodeUse
from power.lifecycle.node_record import ASLEEP, Instant, NodeRecord, NodeState, is_goal


def find_exclusion(node: Node, record: NodeRecord | None, now: Instant) -> str:
    """Return why nothing at all is done with it, also where the scheduler has it come up; "" if something may be."""
    if record is None or record.observed.state is NodeState.UNKNOWN:
        problem = "" if record is None else record.observed.problem
        return f"its state is not known: {problem}" if problem else "its state is not known"
    if record.hold is not None and is_held(record, now):
        return f"held by {record.hold.owner}: {record.hold.reason}"
    if node.use is NodeUse.UNKNOWN:
        return f"nobody knows whether a job is there: the scheduler says {node.native_state}"
    return ""


def is_held(record: NodeRecord, now: Instant) -> bool:
    """Whether an admin's hold is in force."""
    return record.hold is not None and record.hold.lasts(now.unix_s)


def find_admin_override(node: Node, record: NodeRecord, now: Instant) -> str:
    """Return who else has it, in words; "" if nobody. It is woken all the same where the scheduler asks for that."""
    if node.closed and not node.closed_by_us:
        return f"closed by {node.reason_by or 'somebody'}: {node.reason}"
    desired = record.desired
    if desired is not None and desired.by.startswith(ADMIN) and not is_goal(desired.order, record.observed.state):
        return f"{desired.by} has ordered {desired.order}"
    if now.monotonic_s < record.paused_until_s:
        return "somebody else changed it: hands off for a while"
    return ""


MAY_STILL_FOLLOW_S = 600.0
"""So long after an order to sleep whose answer was lost, or that was not followed in time, no job is let in again."""

CAME_UP_LATE = "it came up too late for the scheduler, and is well now"
NOT_UP = "it did not come up in time: look at its console; as soon as it is up it is tried again"
NO_RESPONSE = "it did not come up in time: look at its console, and switch it off if it is up, for it has to boot anew"


class SleepTarget(StrEnum):
    """What the power loop wants of a node. UP is no order: a node that is up is left alone, others are woken."""

    UP = "up"
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True)
class NodeStep:
    """What is done of a node now: the wish of the life cycle with whose it is, what the scheduler is told, and why."""

    order: NodeOrder | None = None
    change: NodeChange | None = None
    why: str = ""
    by: str = US


def choose_next_step(
    node: Node, record: NodeRecord | None, want: SleepTarget, *, now: Instant, order: NodeOrder = NodeOrder.SOFT_OFF
) -> NodeStep:
    """Return the next step towards what is wanted; `order` is how it goes to sleep. Nothing is wanted of what others
    have, but that the scheduler has it come up is followed."""
    why = find_exclusion(node, record, now)
    if record is None:
        return NodeStep(why=why)
    if why:
        # A hold keeps the node's power as it is, and not the node closed for a sleep that is called off.
        opens = is_held(record, now) and node.use is not NodeUse.UNKNOWN and may_reopen(node, record, now)
        return NodeStep(change=NodeChange.OPEN if opens else None, why=why)
    if node.is_awaited:
        opened = NodeChange.OPEN if node.closed_by_us else None
        return NodeStep(NodeOrder.ON, opened, "the scheduler has it come up", SCHEDULER)
    why = find_admin_override(node, record, now)
    if why:
        return NodeStep(change=choose_change_for_admin(node, record), why=why)
    if node.failed and not node.closed_by_us and not _was_forgotten_by_scheduler(node, record):
        return _choose_for_failed(node, record)
    want = SleepTarget.UP if node.reserved else want
    sleeps = NodeStep(order, why=f"it goes to sleep: {order}")
    if node.power is not NodePower.UP:
        return _choose_for_counted_down(node, record, want, sleeps)
    return _choose_for_closed(node, record, want, sleeps, now) if node.closed else _choose_for_open(node, record, want)


def choose_change_for_admin(node: Node, record: NodeRecord) -> NodeChange | None:
    """Return what the scheduler is told so that an admin's order can be followed: before it, none comes too late."""
    if record.desired is None or not record.desired.by.startswith(ADMIN) or node.closed or node.failed or node.reserved:
        return None
    if record.desired.order is NodeOrder.ON:
        return NodeChange.POWER_UP if node.power is NodePower.DOWN and record.observed.state in ASLEEP else None
    return NodeChange.CLOSE if node.power is NodePower.UP and record.observed.state is NodeState.ON else None


def _choose_for_failed(node: Node, record: NodeRecord) -> NodeStep:
    if node.power is NodePower.UP:
        return NodeStep(why=f"the scheduler counts it as failed: {node.reason or node.native_state}")
    # That it has power does not say that it has come up: one that hangs in its boot has power too.
    if record.observed.state is NodeState.ON:
        return NodeStep(change=NodeChange.RESUME, why=CAME_UP_LATE) if node.responds else NodeStep(why=NO_RESPONSE)
    return NodeStep(why=NOT_UP)


def _was_forgotten_by_scheduler(node: Node, record: NodeRecord) -> bool:
    """Whether it sleeps by our order, and the scheduler, which has lost its memory since, counts it as broken."""
    if node.power is NodePower.DOWN:
        # One that did not come up in time has another reason than ours.
        silent = node.reason.startswith(OURS)
    else:
        silent = node.power is NodePower.UP and not node.responds
    return silent and record.observed.state in ASLEEP and record.observed.by == US


def _choose_for_counted_down(node: Node, record: NodeRecord, want: SleepTarget, sleeps: NodeStep) -> NodeStep:
    """Return the step of a node that the scheduler takes for powered down, or will."""
    state = record.observed.state
    if node.use is NodeUse.USED:
        return NodeStep(why="it is to go down when its jobs have ended")
    if state is NodeState.BOOTING:
        return NodeStep(why="it boots, and nobody here asked for that")
    if state is NodeState.ON and not node.closed:
        if node.reserved:
            return NodeStep(why="it is up, counts as powered down, and is reserved")
        return NodeStep(change=NodeChange.CLOSE, why="it is up, and the scheduler counts it as powered down")
    if state not in ASLEEP or node.power is not NodePower.DOWN:
        return sleeps
    return _choose_for_asleep(node, want, sleeps)


def _choose_for_asleep(node: Node, want: SleepTarget, sleeps: NodeStep) -> NodeStep:
    if node.failed:
        return NodeStep(sleeps.order, NodeChange.RESUME, "it sleeps, and the scheduler counts it as failed")
    if node.closed:
        return NodeStep(sleeps.order, NodeChange.OPEN, "it sleeps: a job that is given it has it woken")
    if want is SleepTarget.UP:
        return NodeStep(sleeps.order, NodeChange.POWER_UP, "it is to wake")
    return NodeStep(sleeps.order, why="it sleeps")


def _choose_for_closed(node: Node, record: NodeRecord, want: SleepTarget, sleeps: NodeStep, now: Instant) -> NodeStep:
    """Return the step of a node that we have closed and that the scheduler takes for up."""
    state = record.observed.state
    if state is NodeState.BOOTING:
        return NodeStep(why="it boots")
    if state is not NodeState.ON and node.use is not NodeUse.FREE:
        return NodeStep(why=f"the scheduler has a job there, and it is {state}")
    if state in ASLEEP:
        return NodeStep(sleeps.order, NodeChange.POWER_DOWN, "it is off: the scheduler is told")
    if state is NodeState.GOING_DOWN or (want is SleepTarget.ASLEEP and node.use is NodeUse.FREE):
        return sleeps
    if may_still_go_down(record, now):
        return NodeStep(why="it may still follow an order to sleep")
    return NodeStep(change=NodeChange.OPEN, why="it stays up")


def _choose_for_open(node: Node, record: NodeRecord, want: SleepTarget) -> NodeStep:
    state = record.observed.state
    if node.use is not NodeUse.FREE:
        return NodeStep(why="a job runs there")
    if node.reserved:
        return NodeStep(why="it is reserved")
    if state is NodeState.ON and want is SleepTarget.ASLEEP:
        return NodeStep(change=NodeChange.CLOSE, why="it is to sleep")
    if state in ASLEEP and record.observed.by == US:
        return NodeStep(change=NodeChange.CLOSE, why="it is off, and the scheduler counts on it")
    return NodeStep(why="it stays as it is")


def may_reopen(node: Node, record: NodeRecord, now: Instant) -> bool:
    """Whether it is up and closed by us, and nothing but our own wish may keep it closed."""
    is_up = record.observed.state is NodeState.ON and node.power is NodePower.UP and node.responds and not node.failed
    return (
        is_up
        and node.closed_by_us
        and not may_still_go_down(record, now)
        and not find_admin_override(node, record, now)
    )


def may_still_go_down(record: NodeRecord, now: Instant) -> bool:
    """Whether an order to sleep was sent so lately that the node may follow it yet, whatever it looks like."""
    sent = record.sent
    return sent is not None and sent.order is not NodeOrder.ON and now.monotonic_s - sent.at_s < MAY_STILL_FOLLOW_S


RISING = frozenset({coming_up(STANDBY), coming_up(OFF)})
STATE_OF_OBSERVED = {
    NodeState.OFF: asleep(OFF),
    NodeState.STANDBY: asleep(STANDBY),
    NodeState.GOING_DOWN: going_down(OFF),
    NodeState.BOOTING: coming_up(OFF),
}


def pool_node_state(node: Node, record: NodeRecord | None, now: Instant) -> int:
    """Return the node's state as in offpeak.model.node_states; FAILED where jobs cannot count on it.

    A node whose BMC is silent is what the scheduler says. With a job it is up, or on its way.
    """
    if _is_unusable(node, record, now):
        return FAILED
    observed = NodeState.UNKNOWN if record is None else record.observed.state
    if node.is_awaited:
        return coming_up(STANDBY if observed is NodeState.STANDBY else OFF)
    if node.use is NodeUse.USED:
        return ACTIVE
    if record is not None and may_reopen(node, record, now):
        return ACTIVE
    return STATE_OF_OBSERVED.get(observed) or _state_by_scheduler(node, observed)


def _is_unusable(node: Node, record: NodeRecord | None, now: Instant) -> bool:
    """Whether the pool has to do without it."""
    if node.use is NodeUse.UNKNOWN or node.reserved or (node.closed and not node.closed_by_us):
        return True
    if record is not None and is_held(record, now):
        return True
    if node.power is not NodePower.UP or node.closed:
        return node.failed and not node.closed
    # Off and counted as up is somebody else's doing; what does not answer is about to count as failed.
    is_off = record is not None and record.observed.state in ASLEEP
    return node.failed or is_off or not node.responds


def _state_by_scheduler(node: Node, observed: NodeState) -> int:
    """Return the state of a node that is on, or that nobody has seen."""
    if node.power is NodePower.UP:
        return going_down(OFF) if node.closed else ACTIVE
    return asleep(OFF) if node.power is NodePower.DOWN and observed is NodeState.UNKNOWN else going_down(OFF)
