"""The plan of the power loop, over all nodes: desired states, updates for the scheduler, and the reasons.

`plan_power` is the entry. The decision runs in this order: observe all nodes, decide about each pool and then about the
whole site, and give each node its next step.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offpeak.display import duration_text
from offpeak.door.effect import AGENT
from offpeak.errors import BadInput
from offpeak.machines.node_sets import fold
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.plugin.scheduler.node import NodeUse, SchedulerState
from offpeak.power.lifecycle.node_record import DesiredState, sleep_order_of
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, NodeMemory, PoolMemory, PowerSite, SleepInProgress
from offpeak.power.live.cycle_watch import CycleWatch, WatchFacts, follow_cycle
from offpeak.power.live.decide import PoolOffer, PoolPlan, plan_pool
from offpeak.power.live.observe import PowerRow, observe_nodes
from offpeak.power.live.pools import NodePool, TypeSplit, find_pools, observe_pool
from offpeak.power.live.power_cap import PowerBudget, find_budget, obey_cap
from offpeak.power.live.steps import CHANGE_ORDER, NodeDecision, SchedulerUpdate, order_next_step

CLOSE_S = 60
"""A node that is not closed so long after its sleep was begun may not be, such as by the mode of its partition."""
OVERDUE_S = 600.0
"""A node that is still on so long after its order to sleep is a problem to report."""
LEFT_S = 300
"""A node in a state in which no job can use it may leave it by itself: its daemon may just begin."""


@dataclass(frozen=True)
class PowerMemory:
    """The memory of the power loop: nodes and pools by name, and the watch over the scheduler's part in sleep."""

    nodes: Mapping[str, NodeMemory] = field(default_factory=dict)
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    watch: CycleWatch = field(default_factory=CycleWatch)


@dataclass(frozen=True)
class PowerPlan:
    """The plan of a cycle.

    `desired_states` are the changed ones, None for a node that has no desired state any more. `offers` are those of the
    pools whose capacity is limited, and the `withdrawn` nodes are not on offer to jobs, each for a reason. Somebody has
    `opened` nodes that were ordered to sleep. `overdue` says of nodes that are still on how long ago they were ordered
    to sleep [s]. Nodes in `left` are on, no job can use them by their state in the scheduler, and no step changes that:
    the state, and for how long [s]. `boot_ends_s` is when the boot of each node that boots is expected to end [Unix s].
    `problems` are messages with hints. `budget` is the cap on power in force, and the draw of the nodes by this plan.
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
    boot_ends_s: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[tuple[str, str], ...] = ()
    budget: PowerBudget | None = None


def plan_power(snapshot: ClusterSnapshot, *, site: PowerSite, memory: PowerMemory) -> PowerPlan:
    """Return the plan of this cycle; `memory` is that of the last cycle, or empty. No I/O, no clock."""
    snapshot = snapshot.with_known_sleepers()
    rows = observe_nodes(snapshot, site, memory.nodes)
    watch = _follow_watch(rows, memory, snapshot, site)
    if memory.watch.is_proven and not watch.is_proven:
        # A node that is still up stays up until the scheduler has proven itself again.
        rows = _replace_sleeps(rows, dict.fromkeys(rows))
    decision = decide(rows, watch, snapshot, site=site, before=memory.pools)
    rows, watch = _replace_sleeps(rows, decision.leaving), decision.watch
    known = {name: row.memory for name, row in rows.items()}
    desired_states: dict[str, DesiredState | None] = {}
    updates: list[SchedulerUpdate] = []
    decisions: list[NodeDecision] = []
    handed_over = defaultdict[str, list[str]](list)
    for name, row in rows.items():
        if not row.opted_in:
            continue
        orders = order_next_step(
            row,
            snapshot,
            wake=decision.wake.get(name),
            withdrawn=decision.withdrawn.get(name, ""),
            cannot_wake=watch.failures > 0 and row.is_off_by_us and not (watch.next_step and name == watch.node),
        )
        if orders.is_new:
            desired_states[name] = orders.desired
        updates += orders.updates
        if orders.decision is not None:
            decisions.append(orders.decision)
        if orders.handed_over:
            handed_over[orders.handed_over].append(name)
        known[name] = orders.memory
    states = {name: row.node.scheduler_state for name, row in rows.items() if row.opted_in}
    overdue_s = _find_overdue(rows.values(), snapshot)
    left = {name: (node.left[0], snapshot.now_s - node.left[1]) for name, node in known.items() if node.left}
    return PowerPlan(
        desired_states=desired_states,
        scheduler_states={name: state for name, state in states.items() if state is not None},
        changes=tuple(sorted(updates, key=lambda update: CHANGE_ORDER.index(update.change))),
        decisions=tuple(decisions),
        memory=PowerMemory(known, decision.pools, watch),
        offers=decision.offers,
        withdrawn=decision.withdrawn,
        opened=frozenset(name for name, row in rows.items() if row.was_opened),
        overdue=overdue_s,
        left={name: (state, for_s) for name, (state, for_s) in left.items() if for_s >= LEFT_S},
        boot_ends_s={name: end_s for name, row in rows.items() if (end_s := row.boot_end_s) is not None},
        problems=(*decision.problems, *_describe_handed_over(handed_over), *_describe_overdue(overdue_s)),
        budget=decision.budget,
    )


def _replace_sleeps(rows: Mapping[str, PowerRow], leaving: Mapping[str, SleepInProgress | None]) -> dict[str, PowerRow]:
    """Return the rows with these sleeps that have begun, or were called off."""
    changed = {name: replace(rows[name], memory=replace(rows[name].memory, leaving=leaving[name])) for name in leaving}
    return {**rows, **changed}


def _follow_watch(
    rows: Mapping[str, PowerRow], memory: PowerMemory, snapshot: ClusterSnapshot, site: PowerSite
) -> CycleWatch:
    """Return the watch after this observation."""
    before = memory.nodes
    facts = WatchFacts(
        snapshot.now_s,
        site.power_terms,
        site.unable,
        {name: why for name, why in snapshot.refused.items() if name in rows and rows[name].is_ours},
        # A node that an admin has taken meanwhile says nothing about the scheduler.
        untaken=[name for name, row in rows.items() if row.is_ours and row.memory.is_untaken(snapshot.now_s)],
        taken=[
            name
            for name, row in rows.items()
            if row.is_asleep and row.node.power is PowerState.OFF and name in before and before[name].untaken_s
        ],
        was_away=memory.watch.node not in before,
    )
    return follow_cycle(memory.watch, rows, facts)


@dataclass(frozen=True)
class Decision:
    """The nodes that must sleep, wake, or be closed to jobs.

    `leaving` has the sleep of each node that begins one, and None for a node whose sleep is called off; all others go
    on. `wake` and `withdrawn` nodes have a reason each. `offers` are those of the pools whose capacity is limited.
    `problems` are messages with hints. `budget` is the cap on power in force, and the draw of the nodes.
    """

    watch: CycleWatch
    leaving: Mapping[str, SleepInProgress | None]
    wake: Mapping[str, str]
    withdrawn: Mapping[str, str]
    pools: Mapping[str, PoolMemory]
    offers: tuple[PoolOffer, ...]
    budget: PowerBudget | None
    problems: tuple[tuple[str, str], ...]


def decide(
    rows: Mapping[str, PowerRow],
    watch: CycleWatch,
    snapshot: ClusterSnapshot,
    *,
    site: PowerSite,
    before: Mapping[str, PoolMemory],
) -> Decision:
    """Return the decision about all nodes; `before` is what was decided about the pools in the last cycle."""
    now_s, budget = snapshot.now_s, find_budget(rows.values(), snapshot, site)
    spare_on = sum(row.state == ACTIVE and row.opted_in for row in rows.values()) - site.agent.min_on
    is_watched = site.power_terms is not None
    most = watch.count_most(site.agent.nodes_per_sweep, now_s, is_watched=is_watched, is_capped=budget is not None)
    most = min(most - _count_on_their_way(rows.values(), now_s), spare_on)
    plans: list[PoolPlan] = []
    leaving: dict[str, SleepInProgress | None] = {}
    pools: dict[str, PoolMemory] = {}
    problems: list[tuple[str, str]] = []
    for group in find_pools(rows.values(), snapshot.view.jobs):
        types = TypeSplit.of(group, snapshot, shared=site.shared_nodes).pools()
        switched = [pool for pool in types if any(row.opted_in for row in pool.rows)]
        for pool in switched or [group]:
            if all(row.state == FAILED for row in pool.rows):
                continue
            try:
                table = observe_pool(pool, rows, site=site, snapshot=snapshot)
                plan = plan_pool(table, before.get(pool.name), most_to_sleep=max(most, 0))
                if budget is not None:
                    plan, budget = obey_cap(table, plan, budget, spare_on=spare_on, most_to_sleep=max(most, 0))
            except BadInput as problem:
                problems.append((f"pool {pool.name}: its nodes cannot sleep: {problem}", problem.hint))
                leaving |= dict.fromkeys(row.name for row in pool.rows)
                continue
            plans.append(plan)
            pools[pool.name] = plan.memory
            most -= len(plan.sleep)
            leaving |= {name: SleepInProgress(now_s, order, why) for name, (order, why) in plan.sleep.items()}
            leaving |= dict.fromkeys(plan.wake)
        problems += _list_unclear_requests(group, now_s)
    on_their_way = sum(leaving.get(name, row.memory.leaving) is not None for name, row in rows.items())
    if budget is not None and budget.spare_w < 0 and on_their_way < site.agent.nodes_per_sweep:
        hint = "end jobs, or change what keeps nodes awake: keep_hot, min_on, capacity"
        problems.append((f"{budget.why}: the nodes draw more, and no other idle node may sleep", hint))
    sleepers = [name for plan in plans for name in plan.sleep]
    if not watch.is_proven and not watch.next_step and sleepers and (watch.failures or is_watched):
        watch = watch.begin(sleepers[0], AGENT, now_s)
    elif watch.must_sleep:
        begun = _begin_watched_sleep(rows, watch, site, now_s)
        if begun is not None and leaving.get(watch.node, rows[watch.node].memory.leaving) is None:
            leaving[watch.node] = begun
    wake = {name: why for plan in plans for name, why in plan.wake.items()}
    if watch.must_wake:
        wake.setdefault(watch.node, f"its cycle is watched{f': {watch.problem}' if watch.problem else ''}")
    withdrawn = {name: why for plan in plans for name, why in plan.withdrawn.items()}
    # Once the fault is reported, the node is left as it is: an admin may have opened it.
    withdrawn |= {
        name: row.record.observed.problem
        for name, row in rows.items()
        if row.record and row.record.observed.is_incomplete and not row.record.fault and not row.node.reserved
        if row.memory.rest_until_s <= now_s
    }
    if watch.next_step:
        # A job has to wake it.
        withdrawn.pop(watch.node, None)
    offers = tuple(plan.offer for plan in plans if plan.offer is not None)
    return Decision(watch, leaving, wake, withdrawn, pools, offers, budget, tuple(problems))


def _count_on_their_way(rows: Iterable[PowerRow], now_s: int) -> int:
    """Return how many nodes are on their way to sleep.

    Nodes that do not go down count, too: where no node follows its orders, not all are taken from jobs. A node counts
    until the scheduler knows that it is off, or that it is back.
    """
    return sum(
        (row.memory.leaving is not None and (row.node.closed_by_us or now_s - row.memory.leaving.since_s < CLOSE_S))
        or row.may_still_go_down
        or row.memory.untaken_s > 0
        or (row.is_asleep and row.node.closed_by_us and row.node.power is PowerState.ON)
        for row in rows
    )


def _begin_watched_sleep(
    rows: Mapping[str, PowerRow], watch: CycleWatch, site: PowerSite, now_s: int
) -> SleepInProgress | None:
    """Return the sleep of the node that an admin named for a whole cycle, None if it cannot sleep now."""
    row, machine = rows.get(watch.node), site.machines.get(watch.node)
    if row is None or machine is None or not row.is_ours or row.state != ACTIVE or row.node.use is not NodeUse.FREE:
        return None
    order = NodeOrder.SOFT_OFF if machine.usable_method(NodeOrder.SOFT_OFF) else NodeOrder.STANDBY
    return SleepInProgress(now_s, order, f"{watch.by} has it go through a whole cycle")


def _list_unclear_requests(pool: NodePool, now_s: int) -> list[tuple[str, str]]:
    unclear = [job for job in pool.jobs if job.is_unclear and job.is_waiting(now_s)]
    if not unclear:
        return []
    first, more = unclear[0], f" and of {len(unclear) - 1:,} more" if unclear[1:] else ""
    why = f"the request of job {first.job_id}{more} is not understood: {first.request_problem}"
    hint = f"the idle nodes of {', '.join(first.partitions)} stay awake while it waits"
    return [(f"pool {pool.name}: {why}", hint)]


def _find_overdue(rows: Iterable[PowerRow], snapshot: ClusterSnapshot) -> dict[str, float]:
    sent = {row.name: sleep_order_of(row.record) for row in rows if row.record and row.may_still_go_down}
    ages_s = {name: snapshot.now.monotonic_s - order.at_s for name, order in sent.items() if order is not None}
    return {name: age_s for name, age_s in ages_s.items() if age_s > OVERDUE_S}


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
