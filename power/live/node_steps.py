"""The next step of a node between scheduler and BMC, and the node's state in its pool, from the reports of both.

To sleep: CLOSE, then the BMC's order once no job can be there, then POWER_DOWN, then OPEN: from now on a job that is
given the node has it woken. While the capacity is limited, a node that is not on offer stays closed, asleep or not. To
wake: POWER_UP, the scheduler wakes the node, and so its desired state is on.
Nothing is stored between the steps, so a kill between any two of them leaves a state from which the loop goes on.

An admin's order to sleep closes a node with a job on it, too, and waits for the end of that job. An admin's order to
wake is reported to the scheduler before the node boots.
"""

from dataclasses import dataclass

from offpeak.door.effect import ADMIN, AGENT, SCHEDULER
from offpeak.model.node_states import ACTIVE, DEPTH_OF_STATE, FAILED, OFF, STANDBY, asleep, coming_up, going_down
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.power.lifecycle.node_record import ASLEEP, Instant, NodeRecord, sleep_order_of


def find_exclusion(node: Node, record: NodeRecord | None, now: Instant) -> str:
    """Return why the node gets no step at all, not even if the scheduler wakes it; "" if it may get one."""
    if record is None or record.observed.state is NodeState.UNKNOWN:
        problem = "" if record is None else record.observed.problem
        return f"its state is not known: {problem}" if problem else "its state is not known"
    if record.hold is not None and is_held(record, now):
        return f"held by {record.hold.owner}: {record.hold.reason}"
    if node.use is NodeUse.UNKNOWN:
        return f"it is unknown whether a job is there: the scheduler reports {node.native_state}"
    return ""


def is_held(record: NodeRecord, now: Instant) -> bool:
    """Whether an admin's hold is in force."""
    return record.hold is not None and record.hold.lasts(now.unix_s)


def find_admin_override(node: Node, record: NodeRecord, now: Instant) -> str:
    """Return which admin or other program changes the node, "" if none. The scheduler can wake it all the same."""
    if node.closed and not node.closed_by_us:
        return f"closed by {node.reason_by or 'somebody'}: {node.reason}"
    desired = record.desired
    if desired is not None and desired.by.startswith(ADMIN) and not desired.is_met_by(record.observed.state):
        return f"{desired.by} has ordered {desired.order}"
    if now.monotonic_s < record.paused_until_s:
        return "another program or person changed it: offpeak leaves it alone for a while"
    return ""


BOOTED_AFTER_S = 5.0
"""The boot time of a node proves that it has rebooted since an order if it is so much later: clocks differ a little."""

MAY_STILL_BOOT_S = 600.0
"""The time for which a node that somebody switched on may boot. slurmctld clears the reason of a drained node that
registers although it counts as powered down, and nobody could tell any more who drained it."""

CAME_UP_LATE = "it came up too late for the scheduler, and works now"
NOT_UP = "it did not come up in time: look at its console; offpeak tries again as soon as it is up"
NO_RESPONSE = "it did not come up in time: look at its console, and switch it off if it is up, as it must boot again"
HANDED_OVER = (NOT_UP, NO_RESPONSE)
"""Why a node is left to the admin."""


@dataclass(frozen=True, slots=True)
class NodeStep:
    """The next step of a node: the order that its record desires, with its owner, the scheduler's change, and why."""

    order: NodeOrder | None = None
    change: NodeChange | None = None
    why: str = ""
    by: str = AGENT


def choose_next_step(
    node: Node,
    record: NodeRecord | None,
    *,
    to_sleep: bool,
    now: Instant,
    order: NodeOrder = NodeOrder.SOFT_OFF,
    withdrawn: str = "",
    is_untaken: bool = False,
    must_boot_again: bool = False,
) -> NodeStep:
    """Return the next step towards sleep, by `order`, or towards a node that is up.

    A node that is up stays as it is, a sleeping one is woken. `withdrawn` is why it is closed to jobs although it is
    up, or sleeps; "" if it is open to them. `is_untaken`: it sleeps, and the scheduler would not wake it for a job.
    `must_boot_again`: it is up and idle, and the scheduler has forgotten that. A node that an admin changes gets no
    step of its own, but it follows the scheduler when that wakes it.
    """
    why = find_exclusion(node, record, now)
    if record is None:
        return NodeStep(why=why)
    if why:
        # A hold keeps the node's power unchanged; it does not keep the node closed for a sleep that is called off.
        opens = is_held(record, now) and node.use is not NodeUse.UNKNOWN and may_give_back(node, record, now)
        return NodeStep(change=NodeChange.OPEN if opens else None, why=why)
    if node.is_awaited:
        opened = NodeChange.OPEN if node.closed_by_us else None
        return NodeStep(NodeOrder.ON, opened, "the scheduler wakes it", SCHEDULER)
    why = find_admin_override(node, record, now)
    if why:
        return NodeStep(change=choose_change_for_admin(node, record), why=why)
    is_forgotten = (must_boot_again and not node.responds) or _was_forgotten_by_scheduler(node, record)
    if node.failed and not node.closed_by_us and not is_forgotten:
        return _choose_for_failed(node, record)
    if is_untaken and record.observed.state in ASLEEP:
        return NodeStep(NodeOrder.ON, why="it is off, and the scheduler would not wake it")
    to_sleep = to_sleep and not node.reserved
    sleeps = NodeStep(order, why=f"it goes to sleep: {order}")
    if node.power is not PowerState.ON:
        may_boot = not must_boot_again and now.unix_s - record.observed.since_unix_s < MAY_STILL_BOOT_S
        return _choose_for_counted_down(node, record, sleeps, may_boot=may_boot, to_sleep=to_sleep, withdrawn=withdrawn)
    if node.closed and is_untaken:
        return NodeStep(NodeOrder.ON, why="it is off, and the scheduler does not count it as powered down")
    if node.closed:
        return _choose_for_closed(node, record, sleeps, now, to_sleep=to_sleep, withdrawn=withdrawn)
    if withdrawn and (record.observed.state is NodeState.ON or record.observed.is_incomplete):
        return NodeStep(change=NodeChange.WITHDRAW, why=withdrawn)
    return _choose_for_open(node, record, to_sleep=to_sleep, may_go_down=may_still_go_down(node, record, now))


def choose_change_for_admin(node: Node, record: NodeRecord) -> NodeChange | None:
    """Return the scheduler's change that has to precede an admin's order, None if there is none."""
    if record.desired is None or not record.desired.by.startswith(ADMIN) or node.failed or node.reserved:
        return None
    if node.closed and not (node.closed_by_us and record.desired.order is NodeOrder.ON):
        return None
    if record.desired.order is NodeOrder.ON:
        return NodeChange.POWER_UP if node.power is PowerState.OFF and record.observed.state in ASLEEP else None
    return NodeChange.CLOSE if node.power is PowerState.ON and record.observed.state is NodeState.ON else None


def _choose_for_failed(node: Node, record: NodeRecord) -> NodeStep:
    if node.power is PowerState.ON:
        return NodeStep(why=f"the scheduler counts it as failed: {node.reason or node.native_state}")
    # Power does not mean that the node has come up: a node that hangs in its boot has power, too.
    if record.observed.state is NodeState.ON:
        return NodeStep(change=NodeChange.RESUME, why=CAME_UP_LATE) if node.responds else NodeStep(why=NO_RESPONSE)
    return NodeStep(why=NOT_UP)


def _was_forgotten_by_scheduler(node: Node, record: NodeRecord) -> bool:
    """Whether it sleeps by offpeak's order, and the scheduler, which has lost its state since, counts it as down."""
    if record.observed.state not in ASLEEP:
        return False
    if node.power is PowerState.ON:
        return not node.responds and record.observed.by == AGENT
    # A node that did not come up in time has another reason than offpeak's.
    return node.is_marked


def _choose_for_counted_down(
    node: Node, record: NodeRecord, sleeps: NodeStep, *, may_boot: bool, to_sleep: bool, withdrawn: str
) -> NodeStep:
    """Return the step of a node that counts as powered down in the scheduler, or is about to."""
    state = record.observed.state
    if node.use is NodeUse.USED:
        return NodeStep(why="it will go down when its jobs have ended")
    if state is NodeState.BOOTING:
        return NodeStep(why="it boots, and offpeak did not order that")
    if state is NodeState.ON and not node.closed:
        if node.reserved:
            return NodeStep(why="it is up, counts as powered down, and is reserved")
        if node.power is PowerState.OFF and may_boot:
            return NodeStep(why="it is on, counts as powered down, and may still boot")
        return NodeStep(change=NodeChange.CLOSE, why="it is up, and the scheduler counts it as powered down")
    if state in ASLEEP and withdrawn and to_sleep and not (node.closed or node.failed):
        # Slurm 22.05 ends the drain of a node that it powers down, and would wake it for a job.
        return NodeStep(sleeps.order, NodeChange.WITHDRAW, withdrawn)
    if state not in ASLEEP or node.power is not PowerState.OFF:
        return sleeps
    if node.failed:
        return NodeStep(sleeps.order, NodeChange.RESUME, "it sleeps, and the scheduler counts it as failed")
    if not to_sleep:
        return NodeStep(sleeps.order, NodeChange.POWER_UP, "it must wake")
    if withdrawn:
        return NodeStep(sleeps.order, why=withdrawn)
    if node.closed:
        return NodeStep(sleeps.order, NodeChange.OPEN, "it sleeps: the scheduler wakes it for a job")
    return NodeStep(sleeps.order, why="it sleeps")


def _choose_for_closed(
    node: Node, record: NodeRecord, sleeps: NodeStep, now: Instant, *, to_sleep: bool, withdrawn: str
) -> NodeStep:
    """Return the step of a node that the agent has closed and that counts as up in the scheduler."""
    state = record.observed.state
    if state is NodeState.BOOTING:
        return NodeStep(why="it boots")
    if state is not NodeState.ON and node.use is not NodeUse.FREE:
        return NodeStep(why=f"the scheduler has a job there, and it is {state}")
    if state in ASLEEP:
        return NodeStep(sleeps.order, NodeChange.POWER_DOWN, "it is off: the scheduler must know")
    if state is NodeState.GOING_DOWN or (to_sleep and node.use is NodeUse.FREE):
        return sleeps
    if may_still_go_down(node, record, now):
        # Ordered again, each time by all rules, until it is off: jobs get it back soonest by a boot.
        waits = node.use is not NodeUse.FREE or _is_woken_by_admin(record)
        return NodeStep(why=MAY_STILL_FOLLOW) if waits else sleeps
    if withdrawn:
        return NodeStep(why=withdrawn)
    return NodeStep(change=NodeChange.OPEN, why="it stays up")


def _choose_for_open(node: Node, record: NodeRecord, *, to_sleep: bool, may_go_down: bool) -> NodeStep:
    state = record.observed.state
    if node.use is not NodeUse.FREE:
        return NodeStep(why="a job runs there")
    if node.reserved:
        return NodeStep(why="it is reserved")
    if state is NodeState.ON and (to_sleep or may_go_down):
        return NodeStep(change=NodeChange.CLOSE, why="it must sleep" if to_sleep else MAY_STILL_FOLLOW)
    if state in ASLEEP and record.observed.by == AGENT:
        # A node that does not respond gets no job before it is powered down.
        change = NodeChange.CLOSE if node.responds or node.failed else NodeChange.POWER_DOWN
        return NodeStep(change=change, why="it is off: the scheduler must know")
    if state is NodeState.ON and node.is_marked:
        # A server of PBS that began anew has opened the node when its daemon registered: only our mark is left.
        return NodeStep(change=NodeChange.OPEN, why="it stays up")
    return NodeStep(why="it stays as it is")


def may_reopen(node: Node, record: NodeRecord, now: Instant) -> bool:
    """Whether it is up and closed by the agent, and no admin or pending order keeps it closed."""
    is_up = record.observed.state is NodeState.ON and node.power is PowerState.ON and node.responds and not node.failed
    return (
        is_up
        and node.closed_by_us
        and not may_still_go_down(node, record, now)
        and not find_admin_override(node, record, now)
    )


def may_give_back(node: Node, record: NodeRecord, now: Instant) -> bool:
    """Whether the agent has closed it, and jobs could use it if it were open: it is up, or sleeps and may be woken."""
    sleeps = node.closed_by_us and node.power is PowerState.OFF and record.observed.state in ASLEEP
    return sleeps or may_reopen(node, record, now)


MAY_STILL_FOLLOW = "it may still follow an order to sleep"

ADMIN_KNOWS_S = 600.0
"""An admin who wakes or opens a node this long after its order to sleep knows that it is on, and has decided.

Earlier, it may be a scheduler that has lost its latest state.
"""


def may_still_go_down(node: Node, record: NodeRecord, now: Instant) -> bool:
    """Whether the node may still follow an order to sleep, however long ago that was sent.

    Shutdowns are delayed for hours, by an upgrade or a file server that does not answer. It is over when the node was
    seen asleep or says itself that it stays up (the record has no sent order then), has booted since, or an admin has
    opened or woken it.
    """
    sent = sleep_order_of(record)
    if sent is None:
        return False
    if now.monotonic_s - sent.at_s > ADMIN_KNOWS_S and (_is_woken_by_admin(record) or not node.is_marked):
        return False
    # Either time alone is wrong after somebody has set the clock.
    sent_unix_s = max(sent.at_unix_s, now.unix_s - (now.monotonic_s - sent.at_s))
    return not has_booted_since(node, sent_unix_s, now.unix_s)


def was_opened(node: Node, record: NodeRecord | None, now_unix_s: float) -> bool:
    """Whether an admin has opened a node that may still follow an order to sleep.

    Our mark at an open node says that a server of PBS did it, because the node's daemon has registered again.
    """
    sent = None if record is None else sleep_order_of(record)
    is_open = node.power is PowerState.ON and not node.closed and not node.is_marked
    return is_open and sent is not None and now_unix_s - sent.at_unix_s > ADMIN_KNOWS_S


def _is_woken_by_admin(record: NodeRecord) -> bool:
    desired = record.desired
    return desired is not None and desired.order is NodeOrder.ON and desired.by.startswith(ADMIN)


def has_booted_since(node: Node, since_unix_s: float, now_unix_s: float) -> bool:
    """Whether the scheduler knows that the node booted after that time."""
    return node.boot_s is not None and since_unix_s + BOOTED_AFTER_S < node.boot_s <= now_unix_s


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node in one cycle: the scheduler's view, the record of its power, and its state in the pool.

    `state` is one of offpeak.model.node_states. `is_ours`: the node may be switched now, and no admin has changed it.
    `may_still_go_down`: it may still follow an order to sleep.
    """

    node: Node
    record: NodeRecord | None
    state: int
    is_ours: bool
    may_still_go_down: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def power(self) -> NodeState:
        """The polled state."""
        return NodeState.UNKNOWN if self.record is None else self.record.observed.state

    @property
    def is_on(self) -> bool:
        """Whether the polls show that the node is up."""
        return self.power is NodeState.ON

    @property
    def is_asleep(self) -> bool:
        """Whether the polls show that the node sleeps."""
        return self.power in ASLEEP


def observe_node(node: Node, record: NodeRecord | None, now: Instant, *, switchable: bool) -> ObservedNode:
    """Return the node in this cycle; `switchable`: the settings and reservations allow orders to it."""
    is_ours = record is not None and not (
        find_exclusion(node, record, now) or find_admin_override(node, record, now) or not switchable
    )
    still = record is not None and may_still_go_down(node, record, now)
    return ObservedNode(node, record, pool_node_state(node, record, now), is_ours, still)


ASLEEP_OFF, GOING_OFF, BOOTING, RESUMING = asleep(OFF), going_down(OFF), coming_up(OFF), coming_up(STANDBY)
STATE_OF_OBSERVED = {
    **{state: asleep(depth) for state, depth in DEPTH_OF_STATE.items()},
    NodeState.GOING_DOWN: GOING_OFF,
    NodeState.BOOTING: BOOTING,
}


def pool_node_state(node: Node, record: NodeRecord | None, now: Instant) -> int:
    """Return the node's state as in offpeak.model.node_states; FAILED where jobs cannot count on it.

    The state of a node whose BMC is silent is the scheduler's. With a job it is up, or coming up.
    """
    if _is_unusable(node, record, now):
        return FAILED
    observed = NodeState.UNKNOWN if record is None else record.observed.state
    if node.is_awaited:
        return RESUMING if observed is NodeState.STANDBY else BOOTING
    if node.use is NodeUse.USED:
        return ACTIVE
    if record is not None and may_reopen(node, record, now):
        return ACTIVE
    return STATE_OF_OBSERVED.get(observed) or _state_by_scheduler(node, observed)


def _is_unusable(node: Node, record: NodeRecord | None, now: Instant) -> bool:
    """Whether jobs of the pool cannot use the node."""
    if node.use is NodeUse.UNKNOWN or node.reserved or (node.closed and not node.closed_by_us):
        return True
    if record is not None and (is_held(record, now) or (record.fault and record.observed.is_incomplete)):
        return True
    if record is not None and record.fault is not None and may_still_go_down(node, record, now):
        return True
    if node.power is not PowerState.ON or node.closed:
        return node.failed and not node.closed
    # Another program switched off a node that counts as up. A silent node is about to count as failed.
    is_off = record is not None and record.observed.state in ASLEEP
    return node.failed or is_off or not node.responds


def _state_by_scheduler(node: Node, observed: NodeState) -> int:
    """Return the state of a node that is on, or not polled yet."""
    if node.power is PowerState.ON:
        return GOING_OFF if node.closed else ACTIVE
    return ASLEEP_OFF if node.power is PowerState.OFF and observed is NodeState.UNKNOWN else GOING_OFF
