"""The plan of the power loop, over all pools: desired states, updates for the scheduler, and the reasons.

The decision runs in this order: observe all nodes, plan each pool (targets, then the nodes to put to sleep or to wake,
then what a cap on power changes), choose the next step of each node.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offpeak.display import duration_text
from offpeak.door.effect import AGENT, SCHEDULER
from offpeak.errors import BadInput
from offpeak.machines.node_sets import fold
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import OFFPEAK, Node, NodeUse, SchedulerState
from offpeak.power.lifecycle.node_record import DesiredState, sleep_order_of
from offpeak.power.live.cluster_snapshot import (
    ClusterSnapshot,
    NodeMemory,
    PoolMemory,
    PowerMemory,
    PowerSite,
    SleepInProgress,
    update_node_memory,
)
from offpeak.power.live.cycle_watch import CycleWatch, WatchFacts, follow_cycle, is_off_by_us
from offpeak.power.live.node_steps import (
    GOING_OFF,
    HANDED_OVER,
    NodeStep,
    ObservedNode,
    choose_next_step,
    is_held,
    may_give_back,
    observe_node,
    was_opened,
)
from offpeak.power.live.node_types import TypeSplit
from offpeak.power.live.offer import PoolOffer
from offpeak.power.live.pool_plan import PoolPlan, plan_pool
from offpeak.power.live.pool_state import NodePool, find_awake_beside, find_pools, observe_pool
from offpeak.power.live.power_cap import PowerBudget, find_budget, obey_cap

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


@dataclass(frozen=True)
class PowerPlan:
    """The plan of a cycle.

    `desired_states` are the changed ones, None for a node that has no desired state any more. `offers` are those of the
    pools whose capacity is limited, and the `withdrawn` nodes are not on offer to jobs, each for a reason. Somebody has
    `opened` nodes that were ordered to sleep. `overdue` says of nodes that are still on how long ago they were ordered
    to sleep [s]. Nodes in `left` are on, no job can use them by their state in the scheduler, and no step changes that:
    the state, and for how long [s]. `problems` are messages with hints. `budget` is the cap on power in force, and the
    draw of the nodes by this plan.
    """

    desired_states: Mapping[str, DesiredState | None]
    scheduler_states: Mapping[str, SchedulerState]
    changes: tuple[SchedulerUpdate, ...]
    decisions: tuple[NodeDecision, ...]
    memory: PowerMemory
    offers: tuple[PoolOffer, ...] = ()
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    opened: frozenset[str] = frozenset()
    overdue: Mapping[str, float] = field(default_factory=dict)
    left: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    problems: tuple[tuple[str, str], ...] = ()
    budget: PowerBudget | None = None


def plan_power(snapshot: ClusterSnapshot, *, site: PowerSite, memory: PowerMemory) -> PowerPlan:
    """Return the plan of this cycle; `memory` is that of the last cycle, or empty. No I/O, no clock."""
    snapshot = snapshot.with_known_sleepers()
    nodes, known = _observe_nodes(snapshot, site, memory)
    watch = _follow_watch(nodes, known, memory, snapshot, site)
    if memory.watch.is_proven and not watch.is_proven:
        # Whoever is still up stays up until the scheduler has proven itself again.
        known = {name: replace(node, leaving=None) for name, node in known.items()}
    memory = replace(memory, nodes=known, watch=watch)
    budget = find_budget(nodes, memory, snapshot, site)
    memory, plans, problems, budget = _plan_pools(nodes, memory, snapshot, site, budget)
    memory = _begin_watched_sleep(nodes, memory, plans, site, snapshot.now_s)
    watch, wake = memory.watch, {name: why for plan in plans for name, why in plan.wake.items()}
    if watch.must_wake:
        wake.setdefault(watch.node, f"its cycle is watched{f': {watch.problem}' if watch.problem else ''}")
    withdrawn = {name: why for plan in plans for name, why in plan.withdrawn.items()}
    known = dict(memory.nodes)
    # Once the fault is reported, the node is left as it is: an admin may have opened it.
    withdrawn |= {
        name: node.record.observed.problem
        for name, node in nodes.items()
        if node.record and node.record.observed.is_incomplete and not node.record.fault and not node.node.reserved
        if known[name].rest_until_s <= snapshot.now_s
    }
    if watch.next_step:
        # A job has to wake it.
        withdrawn.pop(watch.node, None)
    desired_states: dict[str, DesiredState | None] = {}
    changes, decisions, handed_over = [], [], defaultdict[str, list[str]](list)
    for name, node in nodes.items():
        if name not in site.opted_in:
            continue
        cannot_wake = watch.failures > 0 and is_off_by_us(node) and not (watch.next_step and name == watch.node)
        step = _choose_step(
            node,
            known[name],
            snapshot,
            to_wake=name in wake,
            withdrawn=withdrawn.get(name, ""),
            cannot_wake=cannot_wake,
        )
        known[name] = replace(known[name], left=_find_left(node, step, known[name], snapshot))
        if step.why in HANDED_OVER and not known[name].left:
            handed_over[step.why].append(name)
        why = _find_reason(step, known[name], wake.get(name))
        desired = _find_desired_state(node, step, why, snapshot)
        before = None if node.record is None else node.record.desired
        desired_changed = _order_and_owner(desired) != _order_and_owner(before)
        if desired_changed:
            desired_states[name] = desired
        if step.change is NodeChange.POWER_UP and node.node.closed_by_us:
            # Slurm 22.05 forgets the reason of a drain when the node comes up: nobody could tell that it is ours.
            changes.append(SchedulerUpdate(name, NodeChange.OPEN, f"{OFFPEAK}: {why}"))
        if step.change is not None:
            changes.append(SchedulerUpdate(name, step.change, f"{OFFPEAK}: {why}"))
        # The door may refuse an order in each cycle, as in shadow mode; only a new reason is reported.
        is_met = desired is not None and desired.is_met_by(node.power)
        matters = step.change is not None or (desired_changed and not is_met) or node.node.failed
        if matters and step.why != known[name].why:
            order = desired.order if desired is not None and desired_changed else None
            decisions.append(NodeDecision(name, _describe_step(step, order), why))
        # Slurm itself opens a node that it powers down.
        is_settled = node.node.power is (PowerState.OFF if node.is_asleep else PowerState.ON)
        is_withdrawn = name in withdrawn and node.node.closed_by_us and is_settled
        untaken_s = known[name].untaken_s
        if step.change is NodeChange.POWER_DOWN and node.node.closed_by_us:
            untaken_s = untaken_s or snapshot.now_s
        known[name] = replace(known[name], why=step.why, withdrawn=is_withdrawn, untaken_s=untaken_s)
    states = {name: node.node.scheduler_state for name, node in nodes.items() if name in site.opted_in}
    overdue = _find_overdue(nodes, snapshot)
    return PowerPlan(
        desired_states=desired_states,
        scheduler_states={name: state for name, state in states.items() if state is not None},
        changes=tuple(sorted(changes, key=lambda update: CHANGE_ORDER.index(update.change))),
        decisions=tuple(decisions),
        memory=replace(memory, nodes=known),
        offers=tuple(plan.offer for plan in plans if plan.offer is not None),
        withdrawn=withdrawn,
        opened=frozenset(
            name for name, node in nodes.items() if was_opened(node.node, node.record, snapshot.now.unix_s)
        ),
        overdue=overdue,
        left={
            name: (node.left[0], snapshot.now_s - node.left[1])
            for name, node in known.items()
            if node.left is not None and snapshot.now_s - node.left[1] >= LEFT_S
        },
        problems=(
            *problems,
            *_describe_handed_over(handed_over),
            *_describe_overdue(overdue),
        ),
        budget=budget,
    )


def _observe_nodes(
    snapshot: ClusterSnapshot, site: PowerSite, memory: PowerMemory
) -> tuple[dict[str, ObservedNode], dict[str, NodeMemory]]:
    """Return all nodes as they are now, and their memory. A node on its way to sleep does not count as up."""
    nodes, known = {}, {}
    for each in snapshot.view.nodes:
        is_kept = each.name in snapshot.kept_awake
        switchable = each.name in site.opted_in and each.name not in snapshot.untouched and not is_kept
        node = observe_node(each, snapshot.record(each.name), snapshot.now, switchable=switchable)
        before = memory.nodes.get(each.name)
        known[each.name] = update_node_memory(
            each, node.record, before, node.state, snapshot.now_s, hands_off_s=site.agent.hands_off_s
        )
        if is_kept:
            known[each.name] = replace(known[each.name], leaving=None)
        is_leaving = node.state == ACTIVE and known[each.name].leaving is not None
        nodes[each.name] = replace(node, state=GOING_OFF) if is_leaving else node
    return nodes, known


def order_by_enclosure(
    nodes: Iterable[Node], observed: Mapping[str, ObservedNode], memory: PowerMemory, site: PowerSite
) -> tuple[Node, ...]:
    """Return the nodes as they are numbered: where nothing else decides, the last one sleeps first and wakes last.

    Last come enclosures that sleep or could as a whole, of these last the one with the fewest nodes awake, then the one
    idle for longest; before them nodes in no enclosure; first enclosures in which a node stays awake.
    """
    states = {name: node.state for name, node in observed.items()}

    def rank(node: Node) -> tuple[int, int, int, str]:
        if (enclosure := site.inventory.enclosure_of.get(node.name)) is None:
            return 1, 0, 0, ""
        awake = find_awake_beside(node.name, states, site)
        its = [each for name in awake if (each := observed.get(name)) and each.is_ours and each.state == ACTIVE]
        idle_since_s = [memory.nodes[each.name].idle_since_s for each in its if each.node.use is NodeUse.FREE]
        if len(idle_since_s) < len(awake):
            return 0, 0, 0, ""
        return 2, -len(awake), -max(idle_since_s, default=0), enclosure.name

    return tuple(sorted(nodes, key=rank))


def _plan_pools(
    nodes: Mapping[str, ObservedNode],
    memory: PowerMemory,
    snapshot: ClusterSnapshot,
    site: PowerSite,
    budget: PowerBudget | None,
) -> tuple[PowerMemory, list[PoolPlan], tuple[tuple[str, str], ...], PowerBudget | None]:
    """Return the memory with begun and ended sleeps, the pools' plans, the problems, and what is left of the budget."""
    states = {name: node.state for name, node in nodes.items()}
    plans: list[PoolPlan] = []
    pools: dict[str, PoolMemory] = {}
    problems: list[tuple[str, str]] = []
    most_to_sleep = _count_most_to_sleep(nodes, memory, site, snapshot.now_s, is_capped=budget is not None)
    for group in find_pools(snapshot.view.nodes, snapshot.view.jobs):
        types = TypeSplit.of(group, states, snapshot, shared=site.shared_nodes).pools()
        switched = [pool for pool in types if any(node.name in site.opted_in for node in pool.nodes)]
        for pool in switched or [group]:
            names = [node.name for node in pool.nodes]
            if all(states[name] == FAILED for name in names):
                continue
            leaving: dict[str, SleepInProgress | None]
            try:
                pool = replace(pool, nodes=order_by_enclosure(pool.nodes, nodes, memory, site))
                its = site.of_pool(pool.nodes)
                state = observe_pool(pool, states, site=its, snapshot=snapshot)
                plan = plan_pool(state, nodes, memory, site=its, snapshot=snapshot, most_to_sleep=max(most_to_sleep, 0))
                if budget is not None:
                    plan, budget = obey_cap(
                        state,
                        plan,
                        nodes,
                        memory,
                        budget,
                        site=site,
                        snapshot=snapshot,
                        most_to_sleep=max(most_to_sleep, 0),
                    )
            except BadInput as problem:
                problems.append((f"pool {pool.name}: its nodes cannot sleep: {problem}", problem.hint))
                leaving = dict.fromkeys(names)
            else:
                pools[pool.name] = plan.memory
                plans.append(plan)
                most_to_sleep -= len(plan.sleep)
                begun = {name: SleepInProgress(snapshot.now_s, order, why) for name, (order, why) in plan.sleep.items()}
                leaving = {**begun, **dict.fromkeys(plan.wake)}
            changed = {name: replace(memory.nodes[name], leaving=sleep) for name, sleep in leaving.items()}
            memory = replace(memory, nodes={**memory.nodes, **changed})
        problems += _list_unclear_requests(group, snapshot.now_s)
    on_their_way = sum(node.leaving is not None for node in memory.nodes.values())
    if budget is not None and budget.spare_w < 0 and on_their_way < site.agent.nodes_per_sweep:
        hint = "end jobs, or change what keeps nodes awake: keep_hot, min_on, capacity"
        problems.append((f"{budget.why}: the nodes draw more, and no other idle node may sleep", hint))
    return replace(memory, pools=pools), plans, tuple(problems), budget


OVERDUE_S = 600.0
"""A node that is still on so long after its order to sleep is a problem to report."""


def _find_overdue(nodes: Mapping[str, ObservedNode], snapshot: ClusterSnapshot) -> dict[str, float]:
    sent = {name: sleep_order_of(node.record) for name, node in nodes.items() if node.record and node.may_still_go_down}
    ages_s = {name: snapshot.now.monotonic_s - order.at_s for name, order in sent.items() if order is not None}
    return {name: age_s for name, age_s in ages_s.items() if age_s > OVERDUE_S}


LEFT_S = 300
"""A node in a state in which no job can use it may leave it by itself: its daemon may just begin."""


def _find_left(
    node: ObservedNode, step: NodeStep, memory: NodeMemory, snapshot: ClusterSnapshot
) -> tuple[str, int] | None:
    """Return the state in the scheduler, and since when, of a node that is on and lost for jobs; None for others."""
    record, scheduler = node.record, node.node
    # A node that is down and counts as powered up, or that reboots, is the admin's.
    is_lost = scheduler.use is NodeUse.UNKNOWN and "UNKNOWN" in scheduler.native_state.upper()
    is_lost = is_lost or (scheduler.failed and not scheduler.closed and scheduler.power is not PowerState.ON)
    if record is None or not node.is_on or not is_lost or step.change is not None or step.order is not None:
        return None
    if scheduler.reserved or is_held(record, snapshot.now):
        return None
    is_same = memory.left is not None and memory.left[0] == scheduler.native_state
    return memory.left if is_same else (scheduler.native_state, snapshot.now_s)


def _describe_handed_over(handed_over: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    parts = [(why.partition(": "), fold(names)) for why, names in handed_over.items()]
    return [(f"{nodes}: {what}", hint) for (what, _, hint), nodes in parts]


def _describe_overdue(overdue: Mapping[str, float]) -> list[tuple[str, str]]:
    if not overdue:
        return []
    (first, age_s), *others = overdue.items()
    what, names = f"{first} was ordered to sleep {duration_text(int(age_s))} ago", [name for name, _ in others]
    also = f", as were {', '.join(names[:9])}{' and others' if names[9:] else ''}" if names else ""
    hint = "`systemd-inhibit --list` and `systemctl list-jobs` there show what delays it; "
    hint += f"if it will stay up: offpeak nodes {first} wake"
    return [(f"{what}{also}, and may still follow: no job gets it until it is off", hint)]


def _count_most_to_sleep(
    nodes: Mapping[str, ObservedNode], memory: PowerMemory, site: PowerSite, now_s: int, *, is_capped: bool
) -> int:
    """Return how many nodes of the site may begin to sleep: at most a sweep's number, and enough stay on."""
    is_watched = site.power_terms is not None
    most = memory.watch.count_most(site.agent.nodes_per_sweep, now_s, is_watched=is_watched, is_capped=is_capped)
    # Nodes that do not go down count, too: where no node follows its orders, not all are taken from jobs.
    on_their_way = sum(
        _is_leaving(node, memory.nodes[name], now_s)
        or node.may_still_go_down
        or _is_not_taken_yet(node, memory.nodes[name])
        for name, node in nodes.items()
    )
    left_on = sum(node.state == ACTIVE for name, node in nodes.items() if name in site.opted_in)
    return min(most - on_their_way, left_on - site.agent.min_on)


CLOSE_S = 60
"""A node that is not closed so long after its sleep was begun may not be, such as by the mode of its partition."""


def _is_leaving(node: ObservedNode, memory: NodeMemory, now_s: int) -> bool:
    return memory.leaving is not None and (node.node.closed_by_us or now_s - memory.leaving.since_s < CLOSE_S)


def _is_not_taken_yet(node: ObservedNode, memory: NodeMemory) -> bool:
    """Whether it is off by the agent, or comes back, and the scheduler counts it as up."""
    return memory.untaken_s > 0 or (node.is_asleep and node.node.closed_by_us and node.node.power is PowerState.ON)


def _follow_watch(
    nodes: Mapping[str, ObservedNode],
    known: Mapping[str, NodeMemory],
    memory: PowerMemory,
    snapshot: ClusterSnapshot,
    site: PowerSite,
) -> CycleWatch:
    """Return the watch after this observation."""
    # A node that an admin has taken meanwhile says nothing about the scheduler.
    untaken = [name for name, node in nodes.items() if node.is_ours and known[name].is_untaken(snapshot.now_s)]
    off = (name for name, node in nodes.items() if node.is_asleep and node.node.power is PowerState.OFF)
    taken = [name for name in off if (before := memory.nodes.get(name)) is not None and before.untaken_s]
    refused = {name: why for name, why in snapshot.refused.items() if name in nodes and nodes[name].is_ours}
    was_away = memory.watch.node not in memory.nodes
    facts = WatchFacts(snapshot.now_s, site.power_terms, site.unable, refused, untaken, taken, was_away)
    return follow_cycle(memory.watch, nodes, facts)


def _begin_watched_sleep(
    nodes: Mapping[str, ObservedNode], memory: PowerMemory, plans: Sequence[PoolPlan], site: PowerSite, now_s: int
) -> PowerMemory:
    """Return the memory in which the node that an admin named goes to sleep, or the first sleeper is watched."""
    watch, sleepers = memory.watch, [name for plan in plans for name in plan.sleep]
    if not watch.is_proven and not watch.next_step and sleepers and (watch.failures or site.power_terms is not None):
        return replace(memory, watch=watch.begin(sleepers[0], AGENT, now_s))
    node, machine = nodes.get(watch.node), site.machines.get(watch.node)
    if not watch.must_sleep or node is None or machine is None or memory.nodes[watch.node].leaving is not None:
        return memory
    if not node.is_ours or node.state != ACTIVE or node.node.use is not NodeUse.FREE:
        return memory
    order = NodeOrder.SOFT_OFF if machine.usable_method(NodeOrder.SOFT_OFF) else NodeOrder.STANDBY
    leaving = SleepInProgress(now_s, order, f"{watch.by} has it go through a whole cycle")
    return replace(memory, nodes={**memory.nodes, watch.node: replace(memory.nodes[watch.node], leaving=leaving)})


def _list_unclear_requests(pool: NodePool, now_s: int) -> list[tuple[str, str]]:
    unclear = pool.unclear_jobs(now_s)
    if not unclear:
        return []
    first, more = unclear[0], f" and of {len(unclear) - 1:,} more" if unclear[1:] else ""
    why = f"the request of job {first.job_id}{more} is not understood: {first.request_problem}"
    hint = f"the idle nodes of {', '.join(first.partitions)} stay awake while it waits"
    return [(f"pool {pool.name}: {why}", hint)]


def _choose_step(
    node: ObservedNode,
    memory: NodeMemory,
    snapshot: ClusterSnapshot,
    *,
    to_wake: bool,
    withdrawn: str,
    cannot_wake: bool,
) -> NodeStep:
    """Return the next step of a node. A node that is up stays up unless it is on its way to sleep."""
    if node.name in snapshot.untouched and not node.node.is_awaited:
        opens = node.record is not None and may_give_back(node.node, node.record, snapshot.now)
        return NodeStep(change=NodeChange.OPEN if opens else None, why="it is in maintenance")
    order = NodeOrder.SOFT_OFF
    if memory.leaving is not None:
        order = memory.leaving.order
    elif node.record is not None and node.record.desired is not None and node.record.desired.order is not NodeOrder.ON:
        order = node.record.desired.order
    to_sleep = memory.leaving is not None or (node.is_asleep and not to_wake)
    return choose_next_step(
        node.node,
        node.record,
        to_sleep=to_sleep,
        now=snapshot.now,
        order=order,
        withdrawn=withdrawn,
        is_untaken=cannot_wake or memory.is_untaken(snapshot.now_s),
        must_boot_again=memory.must_boot_again(node.node, node.record),
    )


def _find_reason(step: NodeStep, memory: NodeMemory, why_awake: str | None) -> str:
    """Return the reason for people: that of the pool's plan if the step follows from it, else the step's own."""
    if step.change in (NodeChange.POWER_UP, NodeChange.OPEN) and why_awake is not None:
        return why_awake
    if memory.leaving is not None and step.change in (None, NodeChange.CLOSE):
        return memory.leaving.why
    return step.why


def _find_desired_state(node: ObservedNode, step: NodeStep, why: str, snapshot: ClusterSnapshot) -> DesiredState | None:
    """Return the desired state after the step. Without an order, only that of an admin and a wake in progress stay."""
    if step.order is not None:
        return DesiredState.from_now(step.order, step.by, why, snapshot.now)
    before = None if node.record is None else node.record.desired
    if before is None or before.by not in (AGENT, SCHEDULER):
        return before
    pending = node.record is not None and node.record.attempts.pending is not None
    # The scheduler may give up a boot, and the BMC may be silent, while the node still comes up.
    wakes_still = node.power is NodeState.UNKNOWN or (node.node.failed and pending)
    return before if before.order is NodeOrder.ON and wakes_still else None


def _describe_step(step: NodeStep, order: NodeOrder | None) -> str:
    if step.change is not None:
        return CHANGE_TEXT[step.change]
    if order is None:
        return "is left alone"
    return "is woken" if order is NodeOrder.ON else "is put to sleep"


def _order_and_owner(desired: DesiredState | None) -> tuple[NodeOrder, str] | None:
    return None if desired is None else (desired.order, desired.by)
