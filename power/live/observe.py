"""One table of the cluster: a row for each node, with all that the power decision asks about a node. Pure.

A row joins the scheduler's report, the record of the node's power, and what earlier cycles learned. `observe_nodes` is
the entry; the columns follow in the order in which they are filled: who else changes the node, its state in its pool,
what is remembered of it, how long it takes to sleep and to wake, and what is awake beside it in its enclosure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from offpeak.door.effect import ADMIN, AGENT
from offpeak.machines.inventory import InventoryNode
from offpeak.model.constants import DAY_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import (
    ACTIVE,
    DEPTH_OF_STATE,
    DEPTHS,
    FAILED,
    OFF,
    STANDBY,
    SleepDepth,
    asleep,
    coming_up,
    going_down,
)
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse
from offpeak.power.interlocks.rate_limits import PAUSE_S
from offpeak.power.lifecycle.node_context import NO_DURATIONS
from offpeak.power.lifecycle.node_record import ASLEEP, Instant, NodeRecord, sleep_order_of
from offpeak.power.lifecycle.transitions import name_change
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeMemory, PowerSite, SleepInProgress

ASLEEP_OFF, GOING_OFF, BOOTING, RESUMING = asleep(OFF), going_down(OFF), coming_up(OFF), coming_up(STANDBY)
RISING_DEPTH = {coming_up(depth): depth for depth in DEPTH_OF_STATE.values()}
GONE = frozenset(state(depth) for state in (going_down, asleep) for depth in DEPTH_OF_STATE.values())
"""The states of nodes that sleep, or are about to."""
STATE_OF_OBSERVED = {
    **{state: asleep(depth) for state, depth in DEPTH_OF_STATE.items()},
    NodeState.GOING_DOWN: GOING_OFF,
    NodeState.BOOTING: BOOTING,
}

BOOTED_AFTER_S = 5.0
"""The boot time of a node proves that it has rebooted since an order if it is so much later: clocks differ a little."""
ADMIN_KNOWS_S = 600.0
"""An admin who wakes or opens a node this long after its order to sleep knows that it is on, and has decided.

Earlier, it may be a scheduler that has lost its latest state.
"""

LEAD_FACTOR = 1.2
"""A node is woken this much earlier than its wake takes."""
HANDOVER_S = 10
"""Schedulers check their power saving in intervals. Within this time they pass a wake on to their resume program."""

LONGEST_LEAVE_S = 1800
"""A node that is still awake this long after it was closed is opened again."""
REST_S = 600
"""A node stays up this long after its sleep was refused or failed."""
SAME_CLOCK_S = 60
"""A time of the scheduler that lies further in the future is from before its clock was set back."""
MOST_REFUSALS = 3
"""The door refuses orders that come too fast. After this many refusals the sleep is called off."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node in one cycle: the scheduler's view, the record of its power, and its state in the pool.

    `state` is one of offpeak.model.node_states. `exclusion` is why the node gets no step at all, not even if the
    scheduler wakes it; `admin_override` is which admin or other program changes it, though the scheduler can wake it.
    Both are "" for most nodes. `is_ours`: the node may be switched now, and neither is in the way. `may_reopen`: the
    agent has closed it, it is up, and nothing keeps it closed. `may_still_go_down`: it may still follow an order to
    sleep. `was_opened`: an admin has opened it although it may.
    """

    node: Node
    record: NodeRecord | None
    state: int
    exclusion: str
    admin_override: str
    is_held: bool
    is_ours: bool
    may_reopen: bool
    may_still_go_down: bool
    was_opened: bool

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

    @property
    def is_off_by_us(self) -> bool:
        """Whether the node sleeps by an order of the agent."""
        return self.record is not None and self.is_asleep and self.record.observed.by == AGENT


@dataclass(frozen=True, slots=True)
class TransitionTimes:
    """How long a node takes to wake from each depth and to enter it, by depth number, 0 if unknown.

    The times are the median of those measured, else the node class's or the inventory's. `lead_s` is how long before
    its use a sleeping node must be woken.
    """

    wake_s: tuple[int, ...]
    enter_s: tuple[int, ...]
    lead_s: int


@dataclass(frozen=True, slots=True)
class PowerRow(ObservedNode):
    """The row of a node in the table.

    `kind` is the number of its pool in the cluster model. `opted_in`: the settings let the agent switch it.
    `node_class` has the depths that the node can reach, None if its class is unknown. `awake_beside` are the nodes
    awake in its enclosure, itself among them; there are none without an enclosure.
    """

    memory: NodeMemory
    kind: int
    opted_in: bool
    node_class: NodeClass | None
    times: TransitionTimes
    awake_beside: frozenset[str] = frozenset()

    @property
    def boot_end_s(self) -> int | None:
        """When its boot is expected to end [Unix s], None if it does not boot or nobody knows how long it takes."""
        if self.state not in RISING_DEPTH or self.record is None:
            return None
        wake_s = self.times.wake_s[RISING_DEPTH[self.state]]
        return int(self.record.observed.since_unix_s) + wake_s if wake_s else None


def observe_nodes(snapshot: ClusterSnapshot, site: PowerSite, before: Mapping[str, NodeMemory]) -> dict[str, PowerRow]:
    """Return the rows of all nodes by name, in the scheduler's order; `before` is the memory of the last cycle.

    A node on its way to sleep does not count as up.
    """
    times: dict[tuple[int, int], TransitionTimes] = {}
    rows: dict[str, PowerRow] = {}
    for node in snapshot.view.nodes:
        name, machine, node_class = node.name, site.machines.get(node.name), site.node_class(node.name)
        is_kept = name in snapshot.kept_awake
        switchable = name in site.opted_in and name not in snapshot.untouched and not is_kept
        observed = observe_node(node, snapshot.record(name), snapshot.now, switchable=switchable)
        memory = update_node_memory(observed, before.get(name), snapshot.now_s, hands_off_s=site.agent.hands_off_s)
        if is_kept:
            memory = replace(memory, leaving=None)
        if observed.state == ACTIVE and memory.leaving is not None:
            observed = replace(observed, state=GOING_OFF)
        # Nodes of the same hardware that can reach the same depths share their times.
        key = id(machine.hardware) if machine else 0, id(node_class)
        if key not in times:
            times[key] = _find_times(machine, node_class, site, snapshot)
        rows[name] = PowerRow(
            **{column.name: getattr(observed, column.name) for column in fields(observed)},
            memory=memory,
            kind=snapshot.pool_of_node[name],
            opted_in=name in site.opted_in,
            node_class=node_class,
            times=times[key],
        )
    enclosures = {id(enclosure): enclosure for enclosure in site.inventory.enclosure_of.values()}
    for enclosure in enclosures.values():
        awake = frozenset(name for name in enclosure.nodes if name not in rows or rows[name].state not in GONE)
        rows |= {name: replace(rows[name], awake_beside=awake) for name in enclosure.nodes if name in rows}
    return rows


def observe_node(node: Node, record: NodeRecord | None, now: Instant, *, switchable: bool) -> ObservedNode:
    """Return the node in this cycle; `switchable`: the settings and reservations allow orders to it."""
    exclusion, override = _find_exclusion(node, record, now), _find_admin_override(node, record, now)
    is_held = record is not None and record.hold is not None and record.hold.lasts(now.unix_s)
    still = record is not None and may_still_go_down(node, record, now)
    is_up = record is not None and record.observed.state is NodeState.ON and node.power is PowerState.ON
    may_reopen = is_up and node.responds and not node.failed and node.closed_by_us and not still and not override
    # Our mark at an open node says that a server of PBS opened it, because the node's daemon has registered again.
    is_open = node.power is PowerState.ON and not node.closed and not node.is_marked
    sent = None if record is None else sleep_order_of(record)
    return ObservedNode(
        node=node,
        record=record,
        state=_find_state(node, record, is_held=is_held, may_reopen=may_reopen, still=still),
        exclusion=exclusion,
        admin_override=override,
        is_held=is_held,
        is_ours=record is not None and switchable and not exclusion and not override,
        may_reopen=may_reopen,
        may_still_go_down=still,
        was_opened=is_open and not still and sent is not None and now.unix_s - sent.at_unix_s > ADMIN_KNOWS_S,
    )


def _find_exclusion(node: Node, record: NodeRecord | None, now: Instant) -> str:
    if record is None or record.observed.state is NodeState.UNKNOWN:
        problem = "" if record is None else record.observed.problem
        return f"its state is not known: {problem}" if problem else "its state is not known"
    if record.hold is not None and record.hold.lasts(now.unix_s):
        return f"held by {record.hold.owner}: {record.hold.reason}"
    if node.use is NodeUse.UNKNOWN:
        return f"it is unknown whether a job is there: the scheduler reports {node.native_state}"
    return ""


def _find_admin_override(node: Node, record: NodeRecord | None, now: Instant) -> str:
    if node.closed and not node.closed_by_us:
        return f"closed by {node.reason_by or 'somebody'}: {node.reason}"
    if record is None:
        return ""
    desired = record.desired
    if desired is not None and desired.by.startswith(ADMIN) and not desired.is_met_by(record.observed.state):
        return f"{desired.by} has ordered {desired.order}"
    if now.monotonic_s < record.paused_until_s:
        return "another program or person changed it: offpeak leaves it alone for a while"
    return ""


def may_still_go_down(node: Node, record: NodeRecord, now: Instant) -> bool:
    """Whether the node may still follow an order to sleep, however long ago that was sent.

    Shutdowns are delayed for hours, by an upgrade or a file server that does not answer. It is over when the node was
    seen asleep or says itself that it stays up (the record has no sent order then), has booted since, or an admin has
    opened or woken it. That a node is open proves no admin while it says that it shuts down: a scheduler that begins
    without its state opens nodes, too.
    """
    sent = sleep_order_of(record)
    if sent is None:
        return False
    is_opened = not node.is_marked and not record.observed.goes_down
    if now.monotonic_s - sent.at_s > ADMIN_KNOWS_S and (is_woken_by_admin(record) or is_opened):
        return False
    # Either time alone is wrong after somebody has set the clock.
    sent_unix_s = max(sent.at_unix_s, now.unix_s - (now.monotonic_s - sent.at_s))
    return not has_booted_since(node, sent_unix_s, now.unix_s)


def is_woken_by_admin(record: NodeRecord) -> bool:
    """Whether an admin has ordered the node to wake."""
    desired = record.desired
    return desired is not None and desired.order is NodeOrder.ON and desired.by.startswith(ADMIN)


def has_booted_since(node: Node, since_unix_s: float, now_unix_s: float) -> bool:
    """Whether the scheduler knows that the node booted after that time."""
    return node.boot_s is not None and since_unix_s + BOOTED_AFTER_S < node.boot_s <= now_unix_s


def _find_state(node: Node, record: NodeRecord | None, *, is_held: bool, may_reopen: bool, still: bool) -> int:
    """Return the node's state as in offpeak.model.node_states; FAILED where jobs cannot count on it.

    The state of a node whose BMC is silent is the scheduler's. With a job it is up, or coming up.
    """
    observed = NodeState.UNKNOWN if record is None else record.observed.state
    if node.use is NodeUse.UNKNOWN or node.reserved or is_held or (node.closed and not node.closed_by_us):
        return FAILED
    if record is not None and record.fault is not None and (record.observed.is_incomplete or still):
        return FAILED
    if node.power is not PowerState.ON or node.closed:
        if node.failed and not node.closed:
            return FAILED
    elif node.failed or observed in ASLEEP or not node.responds:
        # Another program switched off a node that counts as up. A silent node is about to count as failed.
        return FAILED
    if node.is_awaited:
        return RESUMING if observed is NodeState.STANDBY else BOOTING
    if node.use is NodeUse.USED or may_reopen:
        return ACTIVE
    if observed in STATE_OF_OBSERVED:
        return STATE_OF_OBSERVED[observed]
    # The node is on, or not polled yet.
    if node.power is PowerState.ON:
        return GOING_OFF if node.closed else ACTIVE
    return ASLEEP_OFF if node.power is PowerState.OFF and observed is NodeState.UNKNOWN else GOING_OFF


def update_node_memory(
    observed: ObservedNode, before: NodeMemory | None, now_s: int, *, hands_off_s: int = 0
) -> NodeMemory:
    """Return the memory of a node after this cycle.

    A node that was withdrawn or ordered to sleep, and that somebody else has opened or powered up, is not closed again
    for `hands_off_s`.
    """
    node, record, power, up = observed.node, observed.record, observed.power, observed.state == ACTIVE
    # The scheduler's times may lie in the future, after its clock was set back.
    boot_s = node.boot_s if node.boot_s is not None and node.boot_s <= now_s else 0
    if before is None:
        idle_since_s = now_s if node.idle_since_s is None else min(node.idle_since_s, now_s)
        before = NodeMemory(up, idle_since_s, boot_s)
        sent = None if record is None else sleep_order_of(record)
        if sent is not None and sent.by == AGENT and node.closed_by_us:
            # An agent that was killed has ordered this sleep: the node is still closed for it.
            leaving = SleepInProgress(now_s, sent.order, node.reason.removeprefix(f"{OFFPEAK}: "))
            before = replace(before, leaving=leaving)
    woken_s = now_s if up and not before.up else max(before.woken_s, boot_s)
    # The door refuses an earlier order to sleep, so the node would be closed to jobs in vain.
    rest_until_s = max(before.rest_until_s, now_s + int(PAUSE_S)) if up and not before.up else before.rest_until_s
    is_opened = before.leaving is not None and observed.was_opened
    if (before.withdrawn and (not node.closed or node.is_awaited)) or is_opened:
        rest_until_s = max(rest_until_s, now_s + hands_off_s)
    idle_since_s = before.idle_since_s
    if node.use is not NodeUse.FREE:
        idle_since_s = now_s
    elif node.idle_since_s is not None and node.idle_since_s <= now_s + SAME_CLOCK_S:
        idle_since_s = max(min(node.idle_since_s, now_s), woken_s)
    has_power = power in (NodeState.ON, NodeState.BOOTING)
    is_untaken = node.power is PowerState.ON and node.closed_by_us and (power in ASLEEP or power is NodeState.BOOTING)
    memory = replace(
        before,
        up=before.up if observed.state == FAILED else up,
        idle_since_s=idle_since_s,
        woken_s=woken_s,
        slept_s=tuple(at_s for at_s in before.slept_s if now_s - at_s < DAY_S) or before.slept_s[-1:],
        rest_until_s=rest_until_s,
        untaken_s=before.untaken_s if is_untaken else 0,
        was_idle=has_power and (node.use is NodeUse.FREE if up else before.was_idle),
    )
    return _update_sleep_in_progress(observed, memory, now_s)


def _update_sleep_in_progress(observed: ObservedNode, memory: NodeMemory, now_s: int) -> NodeMemory:
    """Return the memory with the sleep in progress completed, called off, or unchanged."""
    node, record, leaving = observed.node, observed.record, memory.leaving
    if leaving is None or record is None:
        return replace(memory, leaving=None)
    if observed.is_asleep:
        return replace(memory, leaving=None, slept_s=(*memory.slept_s, now_s))
    attempts = record.attempts
    failed = record.fault is not None or attempts.tries > 0 or attempts.refusals >= MOST_REFUSALS
    if failed or now_s - leaving.since_s > LONGEST_LEAVE_S:
        return replace(memory, leaving=None, rest_until_s=now_s + REST_S)
    is_taken = node.use is not NodeUse.FREE or (node.closed and not node.closed_by_us) or node.reserved
    return replace(memory, leaving=None) if is_taken or observed.was_opened else memory


def _find_times(
    machine: InventoryNode | None, node_class: NodeClass | None, site: PowerSite, snapshot: ClusterSnapshot
) -> TransitionTimes:
    """Return the times of a node.

    A demand that arises directly after a poll is seen by the next one and carried out at the end of that cycle.
    """
    measured = snapshot.records.times.get(machine.hardware.name, NO_DURATIONS) if machine else NO_DURATIONS
    wake_s, enter_s = [0] * len(DEPTHS), [0] * len(DEPTHS)
    for depth in SleepDepth:
        if depth.order is None or depth.state is None:
            continue
        sleep = node_class.find_depth(depth) if node_class else None
        method = machine.hardware.sleep_method(depth.order) if machine else None
        woke_s = measured.expected_s(name_change(NodeOrder.ON, depth.state))
        slept_s = measured.expected_s(name_change(depth.order, NodeState.ON))
        usual_wake_s = sleep.leave.duration_s if sleep else method.wake_timeout_s if method else 0
        wake_s[depth] = usual_wake_s if woke_s is None else math.ceil(woke_s)
        enter_s[depth] = (sleep.enter.duration_s if sleep else 0) if slept_s is None else math.ceil(slept_s)
    cycle_s = max(site.agent.cycle_s, snapshot.cycle_took_s) + snapshot.cycle_took_s
    return TransitionTimes(tuple(wake_s), tuple(enter_s), math.ceil(LEAD_FACTOR * max(wake_s) + cycle_s) + HANDOVER_S)
