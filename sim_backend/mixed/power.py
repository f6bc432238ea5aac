"""The power of the nodes of several pools: for each pool the arrays of a machine of equal nodes.

The nodes of a pool sleep by a capacity policy of their own, with the transitions of their class, and by the kernels of
the engine for equal nodes: `pool_state` and `pool_power` are what these take. Allocation units are whole nodes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import part
from offpeak.model.arrays import Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import CapacityRules, CapacitySchedule, DepthTable, NodeTable
from offpeak.plugin.capacity.sleepers import NeedRecord, new_record
from offpeak.sim_backend.engine.power import MOST_ENTRIES_PER_NODE, Power, TransitionLog, all_active
from offpeak.sim_backend.engine.state import NEVER, NOT_YET, Nodes, SchedulingRules, State, Workload, all_free
from offpeak.sim_backend.engine.state import new_state as equal_nodes_state

LEAST_ENTRIES = 1 << 12
"""The least room of a pool in the log of transitions."""


class PoolPolicies(NamedTuple):
    """The capacity policy and the transitions of each pool, never written by the kernels.

    `rules` has the fields of CapacityRules. The rows of the schedule of pool p are [row_first[p], row_first[p + 1]).
    """

    rules: Int64
    row_first: Int64
    at_s: Int64
    target: Int64
    reserve: Int64
    after_s: Int64
    enter_s: Int64
    leave_s: Int64
    failure: NDArray[np.float64]


class SleepingPools(NamedTuple):
    """What the kernels move of nodes that sleep.

    The nodes of pool p are [node_first[p], node_first[p + 1]) in the columns of `power` and `nodes`, the words of its
    bitmaps begin at `word_first[p]`, its log at `entry_first[p]`, and `group[p]` is its competition group. `machine`
    has the scalars of State by pool, and `unused` the columns of State that pools of nodes do not have.

    By piece of a running job: `units`, the head of the nodes of a counted pool. By cell: `jobs`, those on a shared
    node, `units_of_node`, its head while it has some, and `offered`, 1 while jobs may get the node. `seen` is how many
    entries of a pool's log `offered` takes into account.
    """

    policies: PoolPolicies
    node_first: Int64
    word_first: Int64
    entry_first: Int64
    group: Int64
    is_counted: Int64
    unused: State
    machine: NDArray[np.void]
    nodes: Nodes
    power: Power
    units: Int64
    jobs: Int64
    units_of_node: Int64
    offered: Int64
    seen: Int64


@part
def rules_of_pool(pools: SleepingPools, pool: int) -> CapacityRules:
    """Return the rules of the pool's capacity policy."""
    row = pools.policies.rules[pool]
    return CapacityRules(
        on_demand=row[0] != 0,
        low=row[1],
        raise_for_wide=row[2] != 0,
        period_s=row[3],
        ahead_s=row[4],
        keep_hot=row[5],
        sleeps_per_min=row[6],
        wakes_per_min=row[7],
        min_awake_s=row[8],
        min_asleep_s=row[9],
        most_sleeps_per_day=row[10],
        order=row[11],
        late=row[12] != 0,
        worth_s=row[13],
    )


@part
def schedule_of_pool(pools: SleepingPools, pool: int) -> CapacitySchedule:
    """Return the schedule of the pool's capacity policy."""
    policies = pools.policies
    first = policies.row_first[pool]
    last = policies.row_first[pool + 1]
    return CapacitySchedule(
        policies.at_s[first:last],
        policies.target[first:last],
        policies.reserve[first:last],
        policies.after_s[first:last],
    )


@part
def depths_of_pool(pools: SleepingPools, pool: int) -> DepthTable:
    """Return the transitions of the pool's nodes, none of which fails."""
    policies = pools.policies
    return DepthTable(policies.enter_s[pool], policies.leave_s[pool], policies.failure, policies.failure, NEVER, 0)


@part
def nodes_of_pool(pools: SleepingPools, pool: int) -> tuple[int, int, int, int]:
    """Return the range of the pool's nodes, and that of the words that have a bit for each of them."""
    nodes = pools.node_first
    words = pools.word_first
    return nodes[pool], nodes[pool + 1], words[pool], words[pool + 1]


@part
def pool_state(pools: SleepingPools, pool: int) -> State:
    """Return the pool as a machine of the engine for equal nodes, without queue and jobs."""
    unused = pools.unused
    nodes = pools.nodes
    first, last, word, end = nodes_of_pool(pools, pool)
    return State(
        scalars=pools.machine[pool : pool + 1],
        queue=unused.queue,
        by_width=unused.by_width,
        slots=unused.slots,
        ends=unused.ends,
        expected=unused.expected,
        nodes=Nodes(
            nodes.free[word:end],
            nodes.piece_chunk[first:last],
            nodes.piece_mask[first:last],
            nodes.piece_next[first:last],
            nodes.cursor[2 * pool : 2 * pool + 2],
        ),
        profile=unused.profile,
        window=unused.window,
        recent_s=unused.recent_s,
        start_s=unused.start_s,
    )


@part
def pool_power(pools: SleepingPools, pool: int) -> Power:
    """Return the power of the pool's nodes."""
    power = pools.power
    table = power.table
    needs = power.needs
    log = power.log
    first, last, word, end = nodes_of_pool(pools, pool)
    entry = pools.entry_first[pool]
    full = pools.entry_first[pool + 1]
    return Power(
        scalars=power.scalars[pool : pool + 1],
        rates=power.rates,
        table=NodeTable(
            state=table.state[first:last],
            busy=table.busy[first:last],
            idle=table.idle[word:end],
            idle_since_s=table.idle_since_s[first:last],
            woken_s=table.woken_s[first:last],
            slept_s=table.slept_s[first:last],
            sleeps=table.sleeps[first:last],
            day=table.day[first:last],
        ),
        called_s=power.called_s[first:last],
        ready_s=power.ready_s[first:last],
        fails=power.fails[first:last],
        deeper=power.deeper[first:last],
        draws=power.draws[first:last],
        spare=power.spare[word:end],
        away=power.away[word:end],
        moving=power.moving[word:end],
        nodes_in=power.nodes_in[pool],
        will_fail=power.will_fail,
        wanted_s=power.wanted_s,
        needs=NeedRecord(
            needs=needs.needs[pool],
            idle_s=needs.idle_s[pool],
            used_s=needs.used_s[first:last],
            needed=needs.needed[pool],
            hour=needs.hour[pool],
            kind=needs.kind[pool],
            moments=needs.moments[pool : pool + 1],
        ),
        peaks_mw=power.peaks_mw,
        log=TransitionLog(log.at_s[entry:full], log.node[entry:full], log.state[entry:full]),
    )


class PoolNodes(NamedTuple):
    """A pool as `sleeping_pools` takes it: its nodes, whether they are only counted, and its competition group."""

    nodes: int
    is_counted: bool
    group: int


def sleeping_pools(
    pools: Sequence[PoolNodes],
    capacity: Sequence[CapacityPolicy],
    classes: Sequence[NodeClass],
    *,
    jobs: int,
    cells: int,
    begin_s: int,
) -> SleepingPools:
    """Return pools whose nodes are all active and idle; policies and node classes are by pool."""
    sizes = np.array([pool.nodes for pool in pools], dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    # FCFS, users' estimates and no window, for no jobs.
    no_rules = SchedulingRules(*(0,) * 6, pass_per_event=False)
    unused = equal_nodes_state(Workload(*(none,) * 5, np.empty(0), none), no_rules, machine_size=1)
    machine = np.repeat(unused.scalars, len(sizes))
    machine["free"] = sizes
    return SleepingPools(
        policies=_policies(capacity, classes),
        node_first=_first(sizes),
        word_first=_first(-(-sizes // 64)),
        entry_first=_first(np.maximum(LEAST_ENTRIES, 4 * MOST_ENTRIES_PER_NODE * sizes)),
        group=np.array([pool.group for pool in pools], dtype=np.int64),
        is_counted=np.array([pool.is_counted for pool in pools], dtype=np.int64),
        unused=unused,
        machine=machine,
        nodes=Nodes(*map(np.concatenate, zip(*(all_free(pool.nodes) for pool in pools), strict=True))),
        power=_power(sizes, capacity, jobs=jobs, begin_s=begin_s),
        units=np.empty(0, dtype=np.int64),
        jobs=np.zeros(cells, dtype=np.int64),
        units_of_node=np.full(cells, NOT_YET, dtype=np.int64),
        offered=np.ones(cells, dtype=np.int64),
        seen=np.zeros(len(pools), dtype=np.int64),
    )


def _first(lengths: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _policies(capacity: Sequence[CapacityPolicy], classes: Sequence[NodeClass]) -> PoolPolicies:
    transition_s = np.zeros((2, len(classes), len(DEPTHS)), dtype=np.int64)
    for pool, node_class in enumerate(classes):
        for depth in node_class.depths:
            transition_s[:, pool, depth.depth] = depth.enter.duration_s, depth.leave.duration_s
    schedules = [each.schedule for each in capacity]
    return PoolPolicies(
        rules=np.array([each.rules for each in capacity], dtype=np.int64).reshape(-1, len(CapacityRules._fields)),
        row_first=_first(np.array([len(each.at_s) for each in schedules], dtype=np.int64)),
        at_s=np.concatenate([each.at_s for each in schedules]),
        target=np.concatenate([each.target for each in schedules]),
        reserve=np.concatenate([each.reserve for each in schedules]),
        after_s=np.concatenate([each.after_s for each in schedules]),
        enter_s=transition_s[0],
        leave_s=transition_s[1],
        failure=np.zeros(len(DEPTHS)),
    )


def _power(sizes: Int64, capacity: Sequence[CapacityPolicy], *, jobs: int, begin_s: int) -> Power:
    made = [
        all_active(each.rules, machine_size=size, units_per_node=1, slots=0, jobs=0, begin_s=begin_s)
        for size, each in zip(sizes.tolist(), capacity, strict=True)
    ]
    entries = int(np.maximum(LEAST_ENTRIES, 4 * MOST_ENTRIES_PER_NODE * sizes).sum())
    by_node = ("called_s", "ready_s", "fails", "deeper", "draws", "spare", "away", "moving")
    columns = {name: np.concatenate([getattr(each, name) for each in made]) for name in by_node}
    return made[0]._replace(
        **columns,
        scalars=np.concatenate([each.scalars for each in made]),
        table=NodeTable(*map(np.concatenate, zip(*(each.table for each in made), strict=True))),
        nodes_in=np.array([each.nodes_in for each in made]),
        wanted_s=np.full(jobs, NOT_YET, dtype=np.int64),
        needs=_needs(sizes, any(each.rules.worth_s for each in capacity)),
        log=TransitionLog(np.empty(entries, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int8)),
    )


def _needs(sizes: Int64, is_used: bool) -> NeedRecord:
    one = new_record(int(sizes.max(initial=0)) if is_used else 0)
    pools = len(sizes)

    def for_each(column: NDArray[Any]) -> NDArray[Any]:
        return np.zeros((pools, *column.shape), dtype=column.dtype)

    return NeedRecord(
        needs=for_each(one.needs),
        idle_s=for_each(one.idle_s),
        used_s=np.full(int(sizes.sum()), new_record(1).used_s[0]),
        needed=for_each(one.needed),
        hour=for_each(one.hour),
        kind=for_each(one.kind),
        moments=np.zeros(pools, dtype=np.int64),
    )
