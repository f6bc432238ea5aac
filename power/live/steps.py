"""Turns what must become of a node into its next step and orders, between scheduler and BMC. Pure.

To sleep: CLOSE, then the BMC's order once no job can be there, then POWER_DOWN, then OPEN: from now on a job that is
given the node has it woken. While the capacity is limited, a node that is not on offer stays closed, asleep or not. To
wake: POWER_UP, the scheduler wakes the node, and so its desired state is on.
Nothing is stored between the steps, so a kill between any two of them leaves a state from which the loop goes on.

An admin's order to sleep closes a node with a job on it, too, and waits for the end of that job. An admin's order to
wake is reported to the scheduler before the node boots.
"""

from dataclasses import dataclass, replace

from offpeak.door.effect import ADMIN, AGENT, SCHEDULER
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.power.lifecycle.node_record import ASLEEP, DesiredState, Instant, NodeRecord
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeMemory
from offpeak.power.live.observe import ObservedNode, PowerRow, is_woken_by_admin

CHANGE_ORDER = (
    NodeChange.RESUME,
    NodeChange.OPEN,
    NodeChange.POWER_UP,
    NodeChange.POWER_DOWN,
    NodeChange.CLOSE,
    NodeChange.WITHDRAW,
)
"""The scheduler gets its updates in this order: first those that give nodes to jobs."""

CHANGE_TEXT = {
    NodeChange.RESUME: "is tried again",
    NodeChange.OPEN: "is open to jobs",
    NodeChange.POWER_UP: "wakes",
    NodeChange.POWER_DOWN: "is counted as powered down",
    NodeChange.CLOSE: "sleeps",
    NodeChange.WITHDRAW: "is withdrawn from jobs",
}

MAY_STILL_BOOT_S = 600.0
"""The time for which a node that somebody switched on may boot. slurmctld clears the reason of a drained node that
registers although it counts as powered down, and nobody could tell any more who drained it."""

CAME_UP_LATE = "it came up too late for the scheduler, and works now"
NOT_UP = "it did not come up in time: look at its console; offpeak tries again as soon as it is up"
NO_RESPONSE = "it did not come up in time: look at its console, and switch it off if it is up, as it must boot again"
HANDED_OVER = (NOT_UP, NO_RESPONSE)
"""Why a node is left to the admin."""
MAY_STILL_FOLLOW = "it may still follow an order to sleep"


@dataclass(frozen=True, slots=True)
class SchedulerUpdate:
    """A change of a node for the scheduler, with the reason that admins see there."""

    node: str
    change: NodeChange
    reason: str


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """What changes for a node, and why, in text and numbers."""

    node: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} {self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class StepOrders:
    """What is ordered for a node: the desired state, if `is_new` another one than before, and the scheduler's updates.

    `decision` is None if nothing is to report. `handed_over` is why it is left to the admin, "" if it is not.
    """

    desired: DesiredState | None
    is_new: bool
    updates: tuple[SchedulerUpdate, ...]
    decision: NodeDecision | None
    memory: NodeMemory
    handed_over: str


@dataclass(frozen=True, slots=True)
class NodeStep:
    """The next step of a node: the order that its record desires, with its owner, the scheduler's change, and why."""

    order: NodeOrder | None = None
    change: NodeChange | None = None
    why: str = ""
    by: str = AGENT


def order_next_step(
    row: PowerRow, snapshot: ClusterSnapshot, *, wake: str | None, withdrawn: str, cannot_wake: bool
) -> StepOrders:
    """Return the orders for a node that must sleep (its memory says so), `wake`, or stay as it is.

    `withdrawn` is why it is closed to jobs. `cannot_wake`: the scheduler would not wake it for a job.
    """
    name, node, record, memory, now_s = row.name, row.node, row.record, row.memory, snapshot.now_s
    before = None if record is None else record.desired
    if name in snapshot.untouched and not node.is_awaited:
        step = NodeStep(change=NodeChange.OPEN if may_give_back(row) else None, why="it is in maintenance")
    else:
        order = NodeOrder.SOFT_OFF
        if memory.leaving is not None:
            order = memory.leaving.order
        elif before is not None and before.order is not NodeOrder.ON:
            order = before.order
        step = choose_next_step(
            row,
            snapshot.now,
            to_sleep=memory.leaving is not None or (row.is_asleep and wake is None),
            order=order,
            withdrawn=withdrawn,
            is_untaken=cannot_wake or memory.is_untaken(now_s),
            must_boot_again=memory.must_boot_again(node, record),
        )
    # The reason for people is that of the decision if the step follows from it, else the step's own.
    why = step.why
    if step.change in (NodeChange.POWER_UP, NodeChange.OPEN) and wake is not None:
        why = wake
    elif memory.leaving is not None and step.change in (None, NodeChange.CLOSE):
        why = memory.leaving.why
    desired = _find_desired_state(row, step, why, snapshot.now)
    is_new = _order_and_owner(desired) != _order_and_owner(before)
    updates = []
    if step.change is NodeChange.POWER_UP and node.closed_by_us:
        # Slurm 22.05 forgets the reason of a drain when the node comes up: nobody could tell that it is ours.
        updates.append(SchedulerUpdate(name, NodeChange.OPEN, f"{OFFPEAK}: {why}"))
    if step.change is not None:
        updates.append(SchedulerUpdate(name, step.change, f"{OFFPEAK}: {why}"))
    decision = None
    # The door may refuse an order in each cycle, as in shadow mode; only a new reason is reported.
    is_met = desired is not None and desired.is_met_by(row.power)
    if (step.change is not None or (is_new and not is_met) or node.failed) and step.why != memory.why:
        what = "is left alone"
        if step.change is not None:
            what = CHANGE_TEXT[step.change]
        elif desired is not None and is_new:
            what = "is woken" if desired.order is NodeOrder.ON else "is put to sleep"
        decision = NodeDecision(name, what, why)
    left = _find_left(row, step, snapshot)
    # Slurm itself opens a node that it powers down.
    is_settled = node.power is (PowerState.OFF if row.is_asleep else PowerState.ON)
    untaken_s = memory.untaken_s
    if step.change is NodeChange.POWER_DOWN and node.closed_by_us:
        untaken_s = untaken_s or now_s
    memory = replace(
        memory,
        left=left,
        why=step.why,
        withdrawn=bool(withdrawn) and node.closed_by_us and is_settled,
        untaken_s=untaken_s,
    )
    handed_over = step.why if step.why in HANDED_OVER and not left else ""
    return StepOrders(desired, is_new, tuple(updates), decision, memory, handed_over)


def _find_desired_state(row: PowerRow, step: NodeStep, why: str, now: Instant) -> DesiredState | None:
    """Return the desired state after the step. Without an order, only that of an admin and a wake in progress stay."""
    if step.order is not None:
        return DesiredState.from_now(step.order, step.by, why, now)
    before = None if row.record is None else row.record.desired
    if before is None or before.by not in (AGENT, SCHEDULER):
        return before
    pending = row.record is not None and row.record.attempts.pending is not None
    # The scheduler may give up a boot, and the BMC may be silent, while the node still comes up.
    wakes_still = row.power is NodeState.UNKNOWN or (row.node.failed and pending)
    return before if before.order is NodeOrder.ON and wakes_still else None


def _order_and_owner(desired: DesiredState | None) -> tuple[NodeOrder, str] | None:
    return None if desired is None else (desired.order, desired.by)


def _find_left(row: PowerRow, step: NodeStep, snapshot: ClusterSnapshot) -> tuple[str, int] | None:
    """Return the state in the scheduler, and since when, of a node that is on and lost for jobs; None for others."""
    node, before = row.node, row.memory.left
    # A node that is down and counts as powered up, or that reboots, is the admin's.
    is_lost = node.use is NodeUse.UNKNOWN and "UNKNOWN" in node.native_state.upper()
    is_lost = is_lost or (node.failed and not node.closed and node.power is not PowerState.ON)
    has_step = step.change is not None or step.order is not None
    if not row.is_on or not is_lost or has_step or node.reserved or row.is_held:
        return None
    return before if before is not None and before[0] == node.native_state else (node.native_state, snapshot.now_s)


def choose_next_step(
    observed: ObservedNode,
    now: Instant,
    *,
    to_sleep: bool,
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
    node, record = observed.node, observed.record
    if record is None:
        return NodeStep(why=observed.exclusion)
    if observed.exclusion:
        # A hold keeps the node's power unchanged; it does not keep the node closed for a sleep that is called off.
        opens = observed.is_held and node.use is not NodeUse.UNKNOWN and may_give_back(observed)
        return NodeStep(change=NodeChange.OPEN if opens else None, why=observed.exclusion)
    if node.is_awaited:
        opened = NodeChange.OPEN if node.closed_by_us else None
        return NodeStep(NodeOrder.ON, opened, "the scheduler wakes it", SCHEDULER)
    if observed.admin_override:
        return NodeStep(change=choose_change_for_admin(node, record), why=observed.admin_override)
    # It sleeps by offpeak's order, and the scheduler, which has lost its state since, counts it as down. A node that
    # did not come up in time has another reason than offpeak's.
    is_lost = not node.responds and record.observed.by == AGENT if node.power is PowerState.ON else node.is_marked
    is_forgotten = (must_boot_again and not node.responds) or (observed.is_asleep and is_lost)
    if node.failed and not node.closed_by_us and not is_forgotten:
        if node.power is PowerState.ON:
            return NodeStep(why=f"the scheduler counts it as failed: {node.reason or node.native_state}")
        # Power does not mean that the node has come up: a node that hangs in its boot has power, too.
        if observed.is_on:
            return NodeStep(change=NodeChange.RESUME, why=CAME_UP_LATE) if node.responds else NodeStep(why=NO_RESPONSE)
        return NodeStep(why=NOT_UP)
    if is_untaken and observed.is_asleep:
        return NodeStep(NodeOrder.ON, why="it is off, and the scheduler would not wake it")
    to_sleep = to_sleep and not node.reserved
    sleeps = NodeStep(order, why=f"it goes to sleep: {order}")
    if node.power is not PowerState.ON:
        may_boot = not must_boot_again and now.unix_s - record.observed.since_unix_s < MAY_STILL_BOOT_S
        return _choose_for_counted_down(observed, sleeps, may_boot=may_boot, to_sleep=to_sleep, withdrawn=withdrawn)
    if node.closed and is_untaken:
        return NodeStep(NodeOrder.ON, why="it is off, and the scheduler does not count it as powered down")
    if node.closed:
        return _choose_for_closed(observed, sleeps, to_sleep=to_sleep, withdrawn=withdrawn)
    if withdrawn and (observed.is_on or record.observed.is_incomplete):
        return NodeStep(change=NodeChange.WITHDRAW, why=withdrawn)
    if node.use is not NodeUse.FREE:
        return NodeStep(why="a job runs there")
    if node.reserved:
        return NodeStep(why="it is reserved")
    if observed.is_on and (to_sleep or observed.may_still_go_down):
        return NodeStep(change=NodeChange.CLOSE, why="it must sleep" if to_sleep else MAY_STILL_FOLLOW)
    if observed.is_off_by_us:
        # A node that does not respond gets no job before it is powered down.
        change = NodeChange.CLOSE if node.responds or node.failed else NodeChange.POWER_DOWN
        return NodeStep(change=change, why="it is off: the scheduler must know")
    if observed.is_on and node.is_marked:
        # A server of PBS that began anew has opened the node when its daemon registered: only our mark is left.
        return NodeStep(change=NodeChange.OPEN, why="it stays up")
    return NodeStep(why="it stays as it is")


def _choose_for_counted_down(
    observed: ObservedNode, sleeps: NodeStep, *, may_boot: bool, to_sleep: bool, withdrawn: str
) -> NodeStep:
    """Return the step of a node that counts as powered down in the scheduler, or is about to."""
    node = observed.node
    if node.use is NodeUse.USED:
        return NodeStep(why="it will go down when its jobs have ended")
    if observed.power is NodeState.BOOTING:
        return NodeStep(why="it boots, and offpeak did not order that")
    if observed.is_on and not node.closed:
        if node.reserved:
            return NodeStep(why="it is up, counts as powered down, and is reserved")
        if node.power is PowerState.OFF and may_boot:
            return NodeStep(why="it is on, counts as powered down, and may still boot")
        return NodeStep(change=NodeChange.CLOSE, why="it is up, and the scheduler counts it as powered down")
    if observed.is_asleep and withdrawn and to_sleep and not (node.closed or node.failed):
        # Slurm 22.05 ends the drain of a node that it powers down, and would wake it for a job.
        return NodeStep(sleeps.order, NodeChange.WITHDRAW, withdrawn)
    if not observed.is_asleep or node.power is not PowerState.OFF:
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


def _choose_for_closed(observed: ObservedNode, sleeps: NodeStep, *, to_sleep: bool, withdrawn: str) -> NodeStep:
    """Return the step of a node that the agent has closed and that counts as up in the scheduler."""
    node, state = observed.node, observed.power
    if state is NodeState.BOOTING:
        return NodeStep(why="it boots")
    if not observed.is_on and node.use is not NodeUse.FREE:
        return NodeStep(why=f"the scheduler has a job there, and it is {state}")
    if observed.is_asleep:
        return NodeStep(sleeps.order, NodeChange.POWER_DOWN, "it is off: the scheduler must know")
    if state is NodeState.GOING_DOWN or (to_sleep and node.use is NodeUse.FREE):
        return sleeps
    if observed.may_still_go_down:
        # Ordered again, each time by all rules, until it is off: jobs get it back soonest by a boot.
        is_woken = observed.record is not None and is_woken_by_admin(observed.record)
        return NodeStep(why=MAY_STILL_FOLLOW) if node.use is not NodeUse.FREE or is_woken else sleeps
    if withdrawn:
        return NodeStep(why=withdrawn)
    return NodeStep(change=NodeChange.OPEN, why="it stays up")


def may_give_back(observed: ObservedNode) -> bool:
    """Whether the agent has closed it, and jobs could use it if it were open: it is up, or sleeps and may be woken."""
    node = observed.node
    return observed.may_reopen or (node.closed_by_us and node.power is PowerState.OFF and observed.is_asleep)


def choose_change_for_admin(node: Node, record: NodeRecord) -> NodeChange | None:
    """Return the scheduler's change that has to precede an admin's order, None if there is none."""
    if record.desired is None or not record.desired.by.startswith(ADMIN) or node.failed or node.reserved:
        return None
    if node.closed and not (node.closed_by_us and record.desired.order is NodeOrder.ON):
        return None
    if record.desired.order is NodeOrder.ON:
        return NodeChange.POWER_UP if node.power is PowerState.OFF and record.observed.state in ASLEEP else None
    return NodeChange.CLOSE if node.power is PowerState.ON and record.observed.state is NodeState.ON else None
