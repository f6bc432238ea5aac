"""The power of the nodes of several pools: for each pool arrays of its own, in common columns.

The nodes of a pool sleep by a capacity policy of their own, with the transitions of their class: `pool_machine` and
`pool_power` are what the kernels of one pool take. Allocation units are whole nodes, except where only the units of one
pool are counted: there a node may have several.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import part
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS
from offpeak.plugin.capacity.peak_shaving import PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.plugin.capacity.rules import CapacityRules, CapacitySchedule, DepthTable, NodeTable
from offpeak.plugin.capacity.sleepers import NeedRecord, new_record
from offpeak.plugin.capacity.wake_plan import MOST_PLANNED, ComingUnits, PlannedJobs
from offpeak.sim_backend.engine.allocation import MACHINE_SCALARS, Nodes, PoolMachine, all_free
from offpeak.sim_backend.engine.power import MOST_ENTRIES_PER_NODE, Power, TransitionLog, all_active
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET

LEAST_ENTRIES = 1 << 16
"""The least room of all pools together in the log of transitions."""


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
    enter_failure: Float64
    leave_failure: Float64
    repair_s: Int64
    seed: int


class SleepingPools(NamedTuple):
    """What the kernels move of nodes that sleep.

    The nodes of pool p are [node_first[p], node_first[p + 1]) in the columns of `power`, and the words of their bitmaps
    begin at `word_first[p]`. Its units begin at `unit_first[p]`, the words of their bitmaps at `chunk_first[p]`, its
    log at `entry_first[p]`, and `group[p]` is its competition group. `machine` has the scalars of PoolMachine by pool.

    By piece of a running job, or by its slot where jobs have no pieces: `units`, the head of the units of a counted
    pool. By cell: `jobs`, those on a shared
    node, `units_of_node`, its head while it has some, and `offered`, 1 while jobs may get the node. `seen` is how many
    entries of a pool's log `offered` takes into account. `peak` are the rules of peak shaving, None without it.
    `planned` and `coming` are where a plan of the queue lists jobs and units, empty where no policy makes one.
    """

    policies: PoolPolicies
    node_first: Int64
    word_first: Int64
    unit_first: Int64
    chunk_first: Int64
    entry_first: Int64
    group: Int64
    is_counted: Int64
    machine: NDArray[np.void]
    nodes: Nodes
    power: Power
    units: Int64
    jobs: Int64
    units_of_node: Int64
    offered: Int64
    seen: Int64
    peak: PeakRules | None
    planned: PlannedJobs
    coming: ComingUnits


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
        plan_s=row[12],
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
    """Return the transitions of the pool's nodes."""
    policies = pools.policies
    return DepthTable(
        policies.enter_s[pool],
        policies.leave_s[pool],
        policies.enter_failure[pool],
        policies.leave_failure[pool],
        policies.repair_s[pool],
        policies.seed,
    )


@part
def nodes_of_pool(pools: SleepingPools, pool: int) -> tuple[int, int, int, int]:
    """Return the range of the pool's nodes, and that of the words that have a bit for each of them."""
    nodes = pools.node_first
    words = pools.word_first
    return nodes[pool], nodes[pool + 1], words[pool], words[pool + 1]


@part
def pool_machine(pools: SleepingPools, pool: int) -> PoolMachine:
    """Return the units of the pool and the scalars of its queue."""
    nodes = pools.nodes
    unit = pools.unit_first[pool]
    last = pools.unit_first[pool + 1]
    word = pools.chunk_first[pool]
    end = pools.chunk_first[pool + 1]
    return PoolMachine(
        scalars=pools.machine[pool : pool + 1],
        nodes=Nodes(
            nodes.free[word:end],
            nodes.piece_chunk[unit:last],
            nodes.piece_mask[unit:last],
            nodes.piece_next[unit:last],
            nodes.cursor[2 * pool : 2 * pool + 2],
        ),
    )


@part
def pool_power(pools: SleepingPools, pool: int) -> Power:
    """Return the power of the pool's nodes."""
    power = pools.power
    chunk = pools.chunk_first[pool]
    behind = pools.chunk_first[pool + 1]
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
        spare=power.spare[chunk:behind],
        away=power.away[word:end],
        moving=power.moving[word:end],
        nodes_in=power.nodes_in[pool],
        failure_s=power.failure_s,
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
    """A pool as `sleeping_pools` takes it: its nodes and those units of each that jobs take alone, whether the units
    are only counted, and its competition group.
    """

    nodes: int
    is_counted: bool
    group: int
    units_per_node: int = 1


def sleeping_pools(
    pools: Sequence[PoolNodes],
    capacity: Sequence[CapacityPolicy],
    classes: Sequence[NodeClass],
    *,
    jobs: int,
    cells: int,
    begin_s: int,
    seed: int = 0,
    peak: PeakRules | None = None,
) -> SleepingPools:
    """Return pools whose nodes are all active and idle; policies and node classes are by pool.

    `seed` is that of the transitions that fail.
    """
    sizes = np.array([pool.nodes for pool in pools], dtype=np.int64)
    units = np.array([pool.nodes * pool.units_per_node for pool in pools], dtype=np.int64)
    machine = np.zeros(len(pools), dtype=MACHINE_SCALARS)
    machine["now_s"], machine["free"], machine["shadow_s"] = begin_s, units, NOT_YET
    made = [
        all_active(
            each.rules,
            machine_size=pool.nodes * pool.units_per_node,
            units_per_node=pool.units_per_node,
            slots=0,
            jobs=0,
            begin_s=begin_s,
            charges=0 if peak is None else len(peak.target_mw),
        )
        for pool, each in zip(pools, capacity, strict=True)
    ]
    most_planned = MOST_PLANNED if any(each.rules.plan_s for each in capacity) else 0
    most_coming = int(sizes.sum() + units.sum()) + 2 * MOST_PLANNED + 1 if most_planned else 0
    return SleepingPools(
        policies=policies_of(capacity, classes, seed),
        node_first=_first(sizes),
        word_first=_first(-(-sizes // 64)),
        unit_first=_first(units),
        chunk_first=_first(-(-units // 64)),
        entry_first=_first(_most_entries(sizes)),
        group=np.array([pool.group for pool in pools], dtype=np.int64),
        is_counted=np.array([pool.is_counted for pool in pools], dtype=np.int64),
        machine=machine,
        nodes=Nodes(*map(np.concatenate, zip(*(all_free(size) for size in units.tolist()), strict=True))),
        power=_power(sizes, made, jobs=jobs, is_forecast=any(each.rules.worth_s for each in capacity)),
        units=np.empty(0, dtype=np.int64),
        jobs=np.zeros(cells, dtype=np.int64),
        units_of_node=np.full(cells, NOT_YET, dtype=np.int64),
        offered=np.ones(cells, dtype=np.int64),
        seen=np.zeros(len(pools), dtype=np.int64),
        peak=peak,
        planned=PlannedJobs(_zeros(most_planned), _zeros(most_planned)),
        coming=ComingUnits(_zeros(most_coming), _zeros(most_coming)),
    )


def _zeros(room: int) -> Int64:
    return np.zeros(room, dtype=np.int64)


def _first(lengths: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _most_entries(sizes: Int64) -> Int64:
    return np.maximum(LEAST_ENTRIES // len(sizes), 4 * MOST_ENTRIES_PER_NODE * sizes)


def policies_of(capacity: Sequence[CapacityPolicy], classes: Sequence[NodeClass], seed: int) -> PoolPolicies:
    """Return the capacity policy and the transitions of each pool as the kernels take them."""
    transition_s = np.zeros((2, len(classes), len(DEPTHS)), dtype=np.int64)
    failure = np.zeros((2, len(classes), len(DEPTHS)))
    for pool, node_class in enumerate(classes):
        for depth in node_class.depths:
            transition_s[:, pool, depth.depth] = depth.enter.duration_s, depth.leave.duration_s
            failure[:, pool, depth.depth] = depth.enter.failure_probability, depth.leave.failure_probability
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
        enter_failure=failure[0],
        leave_failure=failure[1],
        repair_s=np.array([NEVER if each.repair_s is None else each.repair_s for each in classes], dtype=np.int64),
        seed=seed,
    )


def _power(sizes: Int64, made: Sequence[Power], *, jobs: int, is_forecast: bool) -> Power:
    """Return the power of all pools in common columns."""
    entries = int(_most_entries(sizes).sum())
    by_node = ("called_s", "ready_s", "fails", "deeper", "draws", "spare", "away", "moving")
    columns = {name: np.concatenate([getattr(each, name) for each in made]) for name in by_node}
    return made[0]._replace(
        **columns,
        scalars=np.concatenate([each.scalars for each in made]),
        table=NodeTable(*map(np.concatenate, zip(*(each.table for each in made), strict=True))),
        nodes_in=np.array([each.nodes_in for each in made]),
        failure_s=np.full(jobs, NEVER),
        wanted_s=np.full(jobs, NOT_YET, dtype=np.int64),
        needs=_needs(sizes, is_forecast),
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
