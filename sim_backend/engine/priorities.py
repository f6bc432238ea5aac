"""Slurm's multifactor priority in a replay: age, fair share, job size, partition, QOS and nice, computed periodically.

Source of the formulas: Slurm's documentation, pages priority_multifactor, classic_fair_share and fair_tree. All factors
are 0 to 1. Usage counts the requested cores, as without TRESBillingWeights, and halves in each half-life.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import kernel
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.limits import PriorityWeights
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.case import EngineCase
from offpeak.sim_backend.engine.rules import FINISHED, NEVER, NOT_YET, PAUSED, EngineRules, PeakTimes
from offpeak.sim_backend.engine.state import PRECEDENCE, REQUEUED, State, Tables, Workload

ROOT = -1
ABOVE_PRIORITIES = 1 << 40
"""Weights have 32 bits."""


class TreeArrays(NamedTuple):
    """A ShareTree for the kernels.

    `norm_shares` are the shares divided by the sum over each association and its siblings. If all rows are sorted by
    parent, the children of ROOT begin at `first_child[0]`, those of row 0 at [1]. `users_first` are the rows, those of
    users before those of accounts.
    """

    parent: Int64
    norm_shares: Float64
    is_user: NDArray[np.bool_]
    first_child: Int64
    users_first: Int64


@dataclass(frozen=True)
class ShareTree:
    """Accounts and users below the root, with their shares. A parent stands before its children, ROOT is no row."""

    parent: Int64
    shares: Int64
    is_user: NDArray[np.bool_]

    def __post_init__(self) -> None:
        rows = np.arange(len(self.parent))
        bad = np.flatnonzero((self.parent >= rows) | (self.parent < ROOT) | (self.shares < 0))
        if len(bad):
            raise BadInput(
                f"association {bad[0]} has parent {self.parent[bad[0]]} and {self.shares[bad[0]]} shares",
                hint="list parents before their children, and shares of at least 0",
            )
        bad = np.flatnonzero((self.parent != ROOT) & self.is_user[self.parent])
        if len(bad):
            raise BadInput(
                f"association {bad[0]} has parent {self.parent[bad[0]]}, which is a user", hint="give an account"
            )

    @cached_property
    def arrays(self) -> TreeArrays:
        """The tree for the kernels."""
        return TreeArrays(
            parent=self.parent.astype(np.int64),
            norm_shares=among_siblings(self.parent.astype(np.int64), self.shares.astype(np.float64)),
            is_user=self.is_user,
            first_child=np.cumsum(np.bincount(self.parent + 2, minlength=len(self.parent) + 2)).astype(np.int64),
            users_first=np.argsort(~self.is_user, kind="stable"),
        )


@kernel
def among_siblings(parent: Int64, values: Float64) -> Float64:
    """Return the values divided by the sum over each row and its siblings, 0 where that is 0."""
    total = np.zeros(len(parent) + 1)
    for row in range(len(parent)):
        total[parent[row] + 1] += values[row]
    found = np.zeros(len(parent))
    for row in range(len(parent)):
        if total[parent[row] + 1] > 0:
            found[row] = values[row] / total[parent[row] + 1]
    return found


@kernel
def with_accounts(parent: Int64, usage: Float64) -> Float64:
    """Return the usage of users, added up in their accounts."""
    found = usage.copy()
    for row in range(len(parent) - 1, -1, -1):
        if parent[row] != ROOT:
            found[parent[row]] += found[row]
    return found


@kernel
def classic_factors(tree: TreeArrays, usage: Float64, dampening: float) -> Float64:
    """Return F = 2**(-UE/S/d) of each association from the usage of the users.

    UE is the association's own share of the usage, moved towards its parent's UE by its part of the siblings' shares.
    """
    parent, norm_shares = tree.parent, tree.norm_shares
    effective = with_accounts(parent, usage)
    of_cluster = norm_shares.copy()
    total = 0.0
    for row in range(len(parent)):
        if parent[row] == ROOT:
            total += effective[row]
    factors = np.zeros(len(parent))
    for row in range(len(parent)):
        effective[row] = effective[row] / total if total > 0 else 0.0
        if parent[row] != ROOT:
            effective[row] += (effective[parent[row]] - effective[row]) * norm_shares[row]
            of_cluster[row] *= of_cluster[parent[row]]
        if of_cluster[row] > 0:
            factors[row] = 2.0 ** (-effective[row] / of_cluster[row] / dampening)
    return factors


@kernel
def fair_tree_factors(tree: TreeArrays, usage: Float64) -> Float64:
    """Return the rank of each user over their number: the best has 1; 0 for accounts.

    Siblings are sorted by LF = S/U, both relative to their siblings, and visited depth first. Users with equal LF have
    equal ranks, accounts with equal LF share their children, and a user has the rank of the best in an equal account.
    """
    parent, norm_shares, is_user = tree.parent, tree.norm_shares, tree.is_user
    first_child, users_first = tree.first_child, tree.users_first
    rows = len(parent)
    level = among_siblings(parent, with_accounts(parent, usage))
    for row in range(rows):
        if level[row] > 0:
            level[row] = norm_shares[row] / level[row]
        else:
            level[row] = np.inf if norm_shares[row] > 0 else 0.0
    order = users_first[np.argsort(-level[users_first], kind="mergesort")]
    place, child, filled = np.empty((3, rows + 1), dtype=np.int64)
    filled[:] = first_child[:-1]
    for at in range(rows):
        row = order[at]
        place[row] = at
        child[filled[parent[row] + 1]] = row
        filled[parent[row] + 1] += 1

    users = np.count_nonzero(is_user)
    left, rank = users, users
    factors = np.zeros(rows)
    # The siblings that are being visited, from the root down: those of each depth stand behind those above them.
    visited, first, at_of, behind = np.zeros((4, rows + 1), dtype=np.int64)
    is_tied = np.zeros(rows + 1, dtype=np.bool_)
    behind[0] = first_child[1]
    visited[: behind[0]] = child[: behind[0]]
    depth = 0
    while depth >= 0:
        here = at_of[depth]
        if here == behind[depth]:
            depth -= 1
            continue
        row = visited[here]
        tied = is_tied[depth] if here == first[depth] else level[row] == level[visited[here - 1]]
        at_of[depth] += 1
        if is_user[row]:
            rank = rank if tied else left
            factors[row] = rank / users
            left -= 1
            continue
        top = behind[depth]
        end = _append(visited, top, child[first_child[row + 1] : first_child[row + 2]])
        while at_of[depth] < top and level[visited[at_of[depth]]] == level[row]:
            row = visited[at_of[depth]]
            end = _append(visited, end, child[first_child[row + 1] : first_child[row + 2]])
            at_of[depth] += 1
        if at_of[depth] > here + 1:
            visited[top:end] = order[np.sort(place[visited[top:end]])]
        depth += 1
        is_tied[depth] = tied
        first[depth] = at_of[depth] = top
        behind[depth] = end
    return factors


@kernel
def _append(rows: Int64, end: int, more: Int64) -> int:
    """Write more rows from `end` on, and return where they end."""
    for at in range(len(more)):
        rows[end + at] = more[at]
    return end + len(more)


@kernel
def decayed_s(begin_s: int, end_s: int, now_s: int, half_life_s: int) -> float:
    """Return the seconds from begin to end, each worth half after a half-life; 0 where the end is not later.

    A half-life of 0 lets nothing decay.
    """
    if end_s <= begin_s:
        return 0.0
    if half_life_s == 0:
        return float(end_s - begin_s)
    worth = 2.0 ** ((end_s - now_s) / half_life_s) - 2.0 ** ((begin_s - now_s) / half_life_s)
    return float(worth * half_life_s / np.log(2.0))


@dataclass(frozen=True)
class Priorities:
    """What the priorities of the jobs depend on; columns are by job, in the order of the case's input.

    `association` is the user's row in the tree. `partition` and `qos` are factors from 0 to 1.
    """

    weights: PriorityWeights
    tree: ShareTree
    association: Int64
    partition: Float64
    qos: Float64
    nice: Int64

    def __post_init__(self) -> None:
        bad = np.flatnonzero((self.association < 0) | (self.association >= len(self.tree.parent)))
        if not len(bad):
            bad = np.flatnonzero(~self.tree.is_user[self.association])
        if len(bad):
            raise BadInput(
                f"job number {bad[0]} has association {self.association[bad[0]]}, which is not a user of the tree",
                hint="give the row of the user below the account",
            )

    def initial_state(self, case: EngineCase) -> "PriorityState":
        """Return what `advance_ranked` moves during a replay of the case, before its first job."""
        jobs = len(case.kept)
        return PriorityState(
            weights=self.weights,
            tree=self.tree.arrays,
            usage=np.zeros(len(self.tree.parent)),
            unfinished=np.empty(jobs, dtype=np.int64),
            period=np.array([0, 0, 0, NOT_YET, 0]),
            association=self.association[case.kept].astype(np.int64),
            billing=_by_job(case, [each.cores for each in case.request_of]).astype(np.float64),
            cancelled_s=np.full(len(case.kept), NEVER, dtype=np.int64),
            precedence=case.workload.preemption.terms[case.workload.request_class, PRECEDENCE],
            fixed=self._fixed(case),
        )

    def _fixed(self, case: EngineCase) -> Float64:
        """Return the part of each kept job's priority that does not change."""
        weights = self.weights
        partition, qos = self.partition[case.kept], self.qos[case.kept]
        found = weights.job_size * self._size_factor(case) + weights.partition * partition + weights.qos * qos
        return np.asarray(found - self.nice[case.kept], dtype=np.float64)

    def _size_factor(self, case: EngineCase) -> Float64:
        """Return the mean of each job's share of the nodes and of the cores, as slurmctld computes it."""
        cluster, weights = case.cluster, self.weights
        cores = max(1, sum(pool.nodes * pool.node_type.cores for pool in cluster.pools))
        node_share = _by_job(case, [each.least_nodes for each in case.request_of]) / max(1, cluster.nodes)
        core_share = _by_job(case, [each.cores for each in case.request_of]) / cores
        if weights.small_relative_to_time:
            minutes = np.maximum(1, -(-case.workload.estimate_s // 60))
            share = np.maximum(node_share, core_share) / minutes
        else:
            share = (node_share + core_share) / 2
        return np.clip(1 - share if weights.favor_small else share, 0, 1)


def _by_job(case: EngineCase, by_class: list[int]) -> Int64:
    return np.array(by_class, dtype=np.int64)[case.workload.request_class]


BEFORE_S, UNFINISHED, SUBMITTED, UNTIL_S, STOPS = range(5)


class PriorityState(NamedTuple):
    """The priorities in a replay; columns are by job of the case or by association.

    `period` has when the usage was last computed, the number of jobs in `unfinished`, how many jobs have been ranked,
    the last second of the period, and how many stopped runs have been seen. `usage` is billing units times seconds.
    `cancelled_s` is when other jobs ended a job, NEVER if they did not.
    """

    weights: PriorityWeights
    tree: TreeArrays
    usage: Float64
    unfinished: Int64
    period: Int64
    association: Int64
    billing: Float64
    cancelled_s: Int64
    precedence: Int64
    fixed: Float64


@kernel
def charge(priorities: PriorityState, state: State, workload: Workload, now_s: int) -> None:
    """Let the usage decay until now, charge what the unfinished jobs ran since, and forget those that have ended."""
    period, usage, unfinished = priorities.period, priorities.usage, priorities.unfinished
    half_life_s = priorities.weights.half_life_s
    association, billing = priorities.association, priorities.billing
    start_s, runtime_s = state.start_s, workload.runtime_s
    before_s = period[BEFORE_S]
    if half_life_s > 0:
        usage *= 2.0 ** ((before_s - now_s) / half_life_s)
    whole_s = decayed_s(before_s, now_s, now_s, half_life_s)
    for row in range(period[STOPS], state.scalars[0].stops):
        job, begin_s, stop_s, mode = state.stops.rows[row]
        if mode == REQUEUED:
            ran_s = decayed_s(max(begin_s, before_s), stop_s, now_s, half_life_s)
            usage[association[job]] += ran_s * billing[job]
        else:
            priorities.cancelled_s[job] = stop_s
    period[STOPS] = state.scalars[0].stops
    left = 0
    for at in range(period[UNFINISHED]):
        job = unfinished[at]
        begin_s = start_s[job]
        end_s = min(begin_s + runtime_s[job], priorities.cancelled_s[job])
        if begin_s != NOT_YET:
            is_whole = begin_s <= before_s and end_s >= now_s
            ran_s = whole_s if is_whole else decayed_s(max(begin_s, before_s), min(end_s, now_s), now_s, half_life_s)
            usage[association[job]] += ran_s * billing[job]
        if begin_s == NOT_YET or end_s > now_s:
            unfinished[left] = job
            left += 1
    period[UNFINISHED] = left
    period[BEFORE_S] = now_s


@kernel
def rank_waiting(priorities: PriorityState, state: State, workload: Workload, now_s: int) -> None:
    """Rank the unfinished jobs that wait, or may wait again, by precedence, priority and submission."""
    weights = priorities.weights
    if weights.fair_share == 0:
        factors = np.zeros(len(priorities.usage))
    elif weights.is_fair_tree:
        factors = fair_tree_factors(priorities.tree, priorities.usage)
    else:
        factors = classic_factors(priorities.tree, priorities.usage, weights.dampening)
    fixed, precedence, association = priorities.fixed, priorities.precedence, priorities.association
    submit_s, rank = workload.submit_s, workload.rank
    jobs = priorities.unfinished[: priorities.period[UNFINISHED]]
    may_stop = len(state.stops.rows) > 0
    ranked = jobs[may_stop | (state.start_s[jobs] == NOT_YET)]
    order = np.empty(len(ranked), dtype=np.int64)
    for at in range(len(ranked)):
        job = ranked[at]
        age = min(max((now_s - submit_s[job]) / weights.max_age_s, 0.0), 1.0)
        fair_share = weights.fair_share * factors[association[job]]
        priority = np.floor(fixed[job] + weights.age * age + fair_share)
        workload.priority[job] = int(priority)
        workload.fair_share[job] = int(fair_share)
        order[at] = -(precedence[job] * ABOVE_PRIORITIES + int(priority))
    order = np.argsort(order, kind="mergesort")
    for at in range(len(ranked)):
        rank[ranked[order[at]]] = at


@kernel
def sort_waiting(tables: Tables, state: State, workload: Workload) -> None:
    """Sort the queue of each group by the ranks, and let its next pass begin anew."""
    groups, waiting, hole = state.groups, state.waiting, len(tables.class_group)
    rank, record, place = workload.rank, workload.record, state.place
    job, request_class = waiting.job, waiting.request_class
    hold_s, passed_over_s = waiting.hold_s, waiting.passed_over_s
    for number in range(len(groups)):
        group = groups[number]
        group.is_stale = group.is_due = group.is_backfill_due = 1
        found = np.empty(group.tail - group.head, dtype=np.int64)
        count, before, is_sorted = 0, NOT_YET, True
        for position in range(group.head, group.tail):
            if request_class[position] != hole:
                found[count] = position
                is_sorted = is_sorted and rank[job[position]] > before
                before = rank[job[position]]
                count += 1
        # A hole keeps the rank of an earlier period, which would misplace jobs that are submitted later.
        if not is_sorted or count < len(found):
            found = found[:count]
            found = found[np.argsort(rank[job[found]], kind="mergesort")]
            group.tail = group.first + count
            job[group.first : group.tail] = job[found]
            request_class[group.first : group.tail] = request_class[found]
            hold_s[group.first : group.tail] = hold_s[found]
            passed_over_s[group.first : group.tail] = passed_over_s[found]
            if len(waiting.size) > 0:
                waiting.size[group.first : group.tail] = waiting.size[found]
                waiting.bounds[:] = 0
            group.head = group.passed_over = group.first
        if group.is_simple == 0:
            for position in range(group.tail - 1, group.head - 1, -1):
                place[record[job[position]]] = rank[job[position]]
            group.ordered = NOT_YET


@kernel
def advance_ranked(
    tables: Tables,
    workload: Workload,
    peaks: PeakTimes,
    rules: EngineRules,
    state: State,
    priorities: PriorityState,
    until_s: int,
) -> int:
    """Do as `advance` does, and rank the jobs that wait or are submitted in a period at its begin.

    Jobs that are submitted within a period have the fair share of its begin and no age.
    """
    period, jobs, calc_period_s = priorities.period, len(workload.submit_s), priorities.weights.calc_period_s
    while True:
        reached = advance(tables, workload, peaks, rules, state, min(until_s, period[UNTIL_S]))
        if reached not in (PAUSED, FINISHED) or until_s <= period[UNTIL_S]:
            return reached
        left, submitted = period[UNFINISHED], period[SUBMITTED]
        if submitted == jobs and (left == 0 or state.scalars[0].running == 0):
            period[UNTIL_S] = NEVER - 1
            continue
        now_s = period[BEFORE_S] + calc_period_s
        if left == 0:
            now_s = workload.submit_s[submitted] // calc_period_s * calc_period_s
        charge(priorities, state, workload, now_s)
        period[UNTIL_S] = now_s + calc_period_s - 1
        while submitted < jobs and workload.submit_s[submitted] <= period[UNTIL_S]:
            priorities.unfinished[period[UNFINISHED]] = submitted
            period[UNFINISHED] += 1
            submitted += 1
        period[SUBMITTED] = submitted
        rank_waiting(priorities, state, workload, now_s)
        sort_waiting(tables, state, workload)
