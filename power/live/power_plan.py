"""The plan of the power loop, over all pools: desired states, updates for the scheduler, and the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from offpeak.door.effect import SCHEDULER, US
from offpeak.errors import BadInput
from offpeak.model.node_states import ACTIVE, FAILED, OFF, going_down
from offpeak.model.orders import NodeChange, NodeOrder
from plugin.scheduler.node import OURS, Node, SchedulerState, scheduler_states
from power.lifecycle.node_record import ASLEEP, DesiredState, NodeRecord, NodeState, is_goal
from power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from power.live.cycle_memory import NodeMemory, PoolMemory, PowerMemory, SleepInProgress, update_node_memory
from power.live.node_demand import UpcomingDemand, find_targets, find_upcoming_demand, make_policy, nodes_in_maintenance
from power.live.node_selection import NodeCandidates, PoolPlan, count_most_to_sleep, plan_pool
from power.live.node_steps import NodeStep, SleepTarget, choose_next_step, pool_node_state
from power.live.pool_state import NodePool, PoolState, find_pools, observe_pool


@dataclass(frozen=True)
class PoolsPlan:
    """Who is to wake, and why; the memory, in which those that leave are marked; and why a pool's nodes stay up."""

    wake: Mapping[str, str]
    memory: PowerMemory
    problems: tuple[tuple[str, str], ...]


def plan_pools(snapshot: ClusterSnapshot, *, site: PowerSite, memory: PowerMemory) -> PoolsPlan:
    """Return the plan of all pools."""
    known, states = _observe_nodes(snapshot, memory)
    wake: dict[str, str] = {}
    pools: dict[str, PoolMemory] = {}
    problems: list[tuple[str, str]] = []
    for pool in find_pools(snapshot.view.nodes, snapshot.view.jobs):
        if all(states[node.name] == FAILED for node in pool.nodes):
            continue
        try:
            candidates = NodeCandidates(site, snapshot, known, nodes_in_maintenance(snapshot.view))
            plan = _plan_one_pool(pool, candidates, states, memory.pools.get(pool.name))
        except BadInput as problem:
            problems.append((f"pool {pool.name}: none of its nodes sleeps: {problem}", problem.hint))
            known = {**known, **_keep_all_awake(pool, known)}
            continue
        pools[pool.name] = plan.memory
        wake.update(plan.wake)
        known = {**known, **_mark_sleepers(plan, known, snapshot.now_s)}
    return PoolsPlan(wake, PowerMemory(known, pools), tuple(problems))


def _observe_nodes(snapshot: ClusterSnapshot, memory: PowerMemory) -> tuple[dict[str, NodeMemory], dict[str, int]]:
    """Return what is known of all nodes now, and how they stand; who was told to leave does not count as up."""
    known, states = {}, {}
    for node in snapshot.view.nodes:
        record = snapshot.record(node.name)
        state = pool_node_state(node, record, snapshot.now)
        known[node.name] = update_node_memory(node, record, memory.nodes.get(node.name), state, snapshot.now_s)
        is_leaving = state == ACTIVE and known[node.name].leaving is not None
        states[node.name] = going_down(OFF) if is_leaving else state
    return known, states


def _plan_one_pool(
    pool: NodePool, candidates: NodeCandidates, states: Mapping[str, int], before: PoolMemory | None
) -> PoolPlan:
    site, snapshot = candidates.site, candidates.snapshot
    state = observe_pool(pool, states, site=site, snapshot=snapshot)
    ahead = find_upcoming_demand(state, site, snapshot)
    targets = find_targets(state, make_policy(state, site, snapshot), before, snapshot.now_s)
    most = count_most_to_sleep(candidates, snapshot.view.nodes, states)
    plan = plan_pool(state, targets, ahead, candidates.nodes, candidates.choice(state, ahead, most))
    return replace(plan, wake={**plan.wake, **_find_nodes_needed_by_name(state, candidates, ahead)})


def _find_nodes_needed_by_name(state: PoolState, candidates: NodeCandidates, ahead: UpcomingDemand) -> dict[str, str]:
    """Return the nodes that are asked for by name, with why."""
    found = {node.name: candidates.to_wake(node.name, ahead) for node in state.pool.nodes if candidates.is_ours(node)}
    return {name: f"for {why}" for name, why in found.items() if why}


def _mark_sleepers(plan: PoolPlan, known: Mapping[str, NodeMemory], now_s: int) -> dict[str, NodeMemory]:
    """Return the memories of those that leave from now on, and of those that are called back."""
    gone = {
        name: replace(known[name], leaving=SleepInProgress(now_s, order, why))
        for name, (order, why) in plan.sleep.items()
    }
    back = {name: replace(known[name], leaving=None) for name in plan.wake if known[name].leaving is not None}
    return gone | back


def _keep_all_awake(pool: NodePool, known: Mapping[str, NodeMemory]) -> dict[str, NodeMemory]:
    return {node.name: replace(known[node.name], leaving=None) for node in pool.nodes}


CHANGE_ORDER = (NodeChange.RESUME, NodeChange.OPEN, NodeChange.POWER_UP, NodeChange.POWER_DOWN, NodeChange.CLOSE)
"""What the scheduler is told, in this order: first what gives jobs nodes."""


CHANGE_TEXT = {
    NodeChange.RESUME: "is tried again",
    NodeChange.OPEN: "is open to jobs",
    NodeChange.POWER_UP: "wakes",
    NodeChange.POWER_DOWN: "is counted as powered down",
    NodeChange.CLOSE: "sleeps",
}


@dataclass(frozen=True, slots=True)
class SchedulerUpdate:
    """What the scheduler is to be told of a node, with the reason that admins see there."""

    node: str
    change: NodeChange
    reason: str


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """What changes for a node, and why, in words and numbers."""

    node: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} {self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class NodeMove:
    """A node's step with the wish that it makes, the one before, and why; `said_before` is the step's reason then."""

    node: Node
    state: NodeState
    step: NodeStep
    desired: DesiredState | None
    before: DesiredState | None
    why: str
    reason_before: str

    @property
    def desired_changed(self) -> bool:
        """Whether the life cycle is to be told of another wish."""
        return _order_and_owner(self.desired) != _order_and_owner(self.before)

    @property
    def update(self) -> SchedulerUpdate | None:
        """What the scheduler is to be told, if anything."""
        change = self.step.change
        return None if change is None else SchedulerUpdate(self.node.name, change, f"{OURS}: {self.why}")

    @property
    def is_news(self) -> bool:
        """Whether something changes for the node, or it is given up, that was not said in the cycle before.

        What the door refuses, as it does in shadow mode, is due again in each cycle.
        """
        is_there = self.desired is not None and is_goal(self.desired.order, self.state)
        changes = self.step.change is not None or (self.desired_changed and not is_there) or self.node.failed
        return changes and self.step.why != self.reason_before

    @property
    def what(self) -> str:
        """What is done of it, for people."""
        if self.step.change is not None:
            return CHANGE_TEXT[self.step.change]
        if self.desired is None or not self.desired_changed:
            return "is left alone"
        return "is woken" if self.desired.order is NodeOrder.ON else "is put to sleep"


@dataclass(frozen=True)
class PowerPlan:
    """`wishes` are those that change, None where nothing is wanted any more; `troubles` are messages with hints."""

    desired_states: Mapping[str, DesiredState | None]
    scheduler_states: Mapping[str, SchedulerState]
    changes: tuple[SchedulerUpdate, ...]
    decisions: tuple[NodeDecision, ...]
    memory: PowerMemory
    problems: tuple[tuple[str, str], ...] = ()


def plan_power(snapshot: ClusterSnapshot, *, site: PowerSite, memory: PowerMemory) -> PowerPlan:
    """Return what is to be done now; `memory` is that of the last cycle, or empty. No I/O, no clock."""
    pools = plan_pools(snapshot, site=site, memory=memory)
    untouched = nodes_in_maintenance(snapshot.view)
    nodes = dict(pools.memory.nodes)
    moves = [
        _make_move(node, _choose_node_step(node, pools, snapshot, untouched), pools, snapshot)
        for node in snapshot.view.nodes
        if node.name in site.opted_in
    ]
    for move in moves:
        nodes[move.node.name] = replace(nodes[move.node.name], why=move.step.why)
    updates = [move.update for move in moves if move.update is not None]
    return PowerPlan(
        desired_states={move.node.name: move.desired for move in moves if move.desired_changed},
        scheduler_states=scheduler_states(node for node in snapshot.view.nodes if node.name in site.opted_in),
        changes=tuple(sorted(updates, key=lambda update: CHANGE_ORDER.index(update.change))),
        decisions=tuple(NodeDecision(move.node.name, move.what, move.why) for move in moves if move.is_news),
        memory=replace(pools.memory, nodes=nodes),
        problems=pools.problems,
    )


def _choose_node_step(node: Node, pools: PoolsPlan, snapshot: ClusterSnapshot, untouched: frozenset[str]) -> NodeStep:
    """Return the step that is due of a node; UP is wanted of all that are up and not told to leave."""
    record, leaving = snapshot.record(node.name), pools.memory.nodes[node.name].leaving
    if node.name in untouched and not node.is_awaited:
        return NodeStep(why="it is in maintenance")
    is_asleep = record is not None and record.observed.state in ASLEEP
    sleeps_on = is_asleep and node.name not in pools.wake
    want = SleepTarget.ASLEEP if leaving is not None or sleeps_on else SleepTarget.UP
    return choose_next_step(node, record, want, now=snapshot.now, order=_find_sleep_order(record, leaving))


def _find_sleep_order(record: NodeRecord | None, leaving: SleepInProgress | None) -> NodeOrder:
    """Return by which order the node goes, or went, to sleep."""
    if leaving is not None:
        return leaving.order
    desired = None if record is None else record.desired
    return desired.order if desired is not None and desired.order is not NodeOrder.ON else NodeOrder.SOFT_OFF


def _make_move(node: Node, step: NodeStep, pools: PoolsPlan, snapshot: ClusterSnapshot) -> NodeMove:
    memory, record = pools.memory.nodes[node.name], snapshot.record(node.name)
    before = None if record is None else record.desired
    leaving = memory.leaving
    why = leaving.why if leaving is not None and step.change in (None, NodeChange.CLOSE) else step.why
    why = pools.wake.get(node.name, why) if step.change in (NodeChange.POWER_UP, NodeChange.OPEN) else why
    desired = before if step.order is None else DesiredState(step.order, step.by, snapshot.now.unix_s, why)
    if step.order is None and before is not None and before.by in (US, SCHEDULER) and not _wakes_still(node, record):
        desired = None
    state = NodeState.UNKNOWN if record is None else record.observed.state
    return NodeMove(
        node=node, state=state, step=step, desired=desired, before=before, why=why, reason_before=memory.why
    )


def _order_and_owner(desired: DesiredState | None) -> tuple[NodeOrder, str] | None:
    return None if desired is None else (desired.order, desired.by)


def _wakes_still(node: Node, record: NodeRecord | None) -> bool:
    """Whether it is being woken, and is not seen or was given up by the scheduler only: that is waited for."""
    if record is None or record.desired is None or record.desired.order is not NodeOrder.ON:
        return False
    return record.observed.state is NodeState.UNKNOWN or (node.failed and record.attempts.pending is not None)
