"""Slurm's multifactor priority in a replay: age, fair share, job size, partition, QOS and nice, computed periodically.

Source of the formulas: Slurm's documentation, pages priority_multifactor, classic_fair_share and fair_tree. All factors
are 0 to 1. Usage counts the requested cores, as without TRESBillingWeights, and halves in each half-life.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S
from sim_backend.engine.state import NOT_YET
from sim_backend.mixed.case import MixedCase, tier_of
from sim_backend.mixed.state import MixedState

ROOT = -1


@dataclass(frozen=True)
class PriorityWeights:
    """The settings of priority/multifactor, with Slurm's defaults; times in seconds.

    `is_fair_tree` is False with PriorityFlags=NO_FAIR_TREE. `half_life_s` 0 lets no usage decay.
    """

    age: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    max_age_s: int = 7 * DAY_S
    favor_small: bool = False
    half_life_s: int = 7 * DAY_S
    calc_period_s: int = 300
    is_fair_tree: bool = True
    dampening: float = 1.0


@dataclass(frozen=True)
class ShareTree:
    """Accounts and users below the root, with their shares. A parent stands before its children, ROOT is no row."""

    parent: Int64
    shares: Int64
    is_user: NDArray[np.bool_]

    def __post_init__(self) -> None:
        bad = np.flatnonzero((self.parent >= np.arange(len(self.parent))) | (self.parent < ROOT) | (self.shares < 0))
        if len(bad):
            raise BadInput(
                f"association {bad[0]} has parent {self.parent[bad[0]]} and {self.shares[bad[0]]} shares",
                hint="list parents before their children, and shares of at least 0",
            )

    def children(self, parent: int) -> list[int]:
        """Return the children of an account, or of ROOT."""
        return np.flatnonzero(self.parent == parent).tolist()

    def normalized(self, values: Float64) -> Float64:
        """Return the values divided by the sum over each row and its siblings, 0 where that is 0."""
        total = np.bincount(self.parent + 1, values, len(values) + 1)[self.parent + 1]
        return np.divide(values, total, out=np.zeros(len(values)), where=total > 0)

    def with_accounts(self, usage: Float64) -> Float64:
        """Return the usage of users, added up in their accounts."""
        found = usage.astype(np.float64)
        for row in range(len(found) - 1, -1, -1):
            if self.parent[row] != ROOT:
                found[self.parent[row]] += found[row]
        return found


def classic_factors(tree: ShareTree, usage: Float64, dampening: float = 1.0) -> Float64:
    """Return F = 2**(-UE/S/d) of each association from the usage of the users.

    UE is the association's own share of the usage, moved towards its parent's UE by its part of the siblings' shares.
    """
    shares = tree.normalized(tree.shares.astype(np.float64))
    own = tree.with_accounts(usage)
    total = own[tree.parent == ROOT].sum()
    effective = own / total if total > 0 else np.zeros(len(own))
    of_cluster = shares.copy()
    for row, parent in enumerate(tree.parent.tolist()):
        if parent != ROOT:
            effective[row] += (effective[parent] - effective[row]) * shares[row]
            of_cluster[row] *= of_cluster[parent]
    exponent = np.divide(effective, of_cluster, out=np.full(len(own), np.inf), where=of_cluster > 0)
    return np.asarray(np.exp2(-exponent / dampening), dtype=np.float64)


def fair_tree_factors(tree: ShareTree, usage: Float64) -> Float64:
    """Return the rank of each user over their number: the best has 1; 0 for accounts.

    Siblings are sorted by LF = S/U, both relative to their siblings, and visited depth first. Users with equal LF have
    equal ranks, accounts with equal LF share their children, and a user has the rank of the best in an equal account.
    """
    used = tree.normalized(tree.with_accounts(usage))
    shares = tree.normalized(tree.shares.astype(np.float64))
    # Usage that has decayed for long is so small that LF is infinite, as without usage.
    with np.errstate(over="ignore"):
        level = np.divide(shares, used, out=np.where(shares > 0, np.inf, 0.0), where=used > 0)
    users = left = int(tree.is_user.sum())
    rank = left
    factors = np.zeros(len(used))

    def visit(siblings: list[int], is_tied: bool) -> None:
        nonlocal left, rank
        siblings = sorted(siblings, key=lambda row: (-level[row], not tree.is_user[row]))
        at = 0
        while at < len(siblings):
            row = siblings[at]
            tied = is_tied if at == 0 else bool(level[row] == level[siblings[at - 1]])
            behind = at + 1
            if tree.is_user[row]:
                rank = rank if tied else left
                factors[row] = rank / users
                left -= 1
            else:
                while behind < len(siblings) and level[siblings[behind]] == level[row]:
                    behind += 1
                visit([child for account in siblings[at:behind] for child in tree.children(account)], tied)
            at = behind

    visit(tree.children(ROOT), False)
    return factors


def decayed_s(begin_s: Int64, end_s: Int64, now_s: int, half_life_s: int) -> Float64:
    """Return the seconds from begin to end, each worth half after a half-life; 0 where the end is not later."""
    length_s: Int64 = np.maximum(end_s - begin_s, 0)
    if half_life_s == 0:
        return length_s.astype(np.float64)
    worth = np.exp2((end_s - now_s) / half_life_s) - np.exp2((end_s - length_s - now_s) / half_life_s)
    return np.asarray(worth * half_life_s / np.log(2), dtype=np.float64)


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
                f"job number {bad[0]} has association {self.association[bad[0]]}, which is no user of the tree",
                hint="give the row of the user below the account",
            )

    def steps(self, case: MixedCase, state: MixedState) -> Iterator[int]:
        """Yield up to which second the engine is to go on; before, rank the jobs that wait or are submitted by then.

        The ranks are written into the case's workload. Jobs that wait have the priority of the last period.
        """
        workload, weights = case.workload, self.weights
        period_s, jobs = weights.calc_period_s, len(case.kept)
        association, cores = self.association[case.kept], _by_job(case, [each.cores for each in case.request_of])
        tier = _by_job(case, [tier_of(case.cluster, each) for each in case.request_of])
        fixed = self._fixed(case)
        usage = np.zeros(len(self.tree.parent))
        unfinished = np.empty(0, dtype=np.int64)
        submitted, before_s = 0, 0
        while submitted < jobs or (state.scalars["running"][0] and len(unfinished)):
            now_s = before_s + period_s
            if not len(unfinished):
                now_s = int(workload.submit_s[submitted]) // period_s * period_s
            start_s = state.start_s[unfinished]
            end_s = np.where(start_s == NOT_YET, NOT_YET, start_s + workload.runtime_s[unfinished])
            ran_s = decayed_s(np.maximum(start_s, before_s), np.minimum(end_s, now_s), now_s, weights.half_life_s)
            if weights.half_life_s:
                usage *= 2.0 ** ((before_s - now_s) / weights.half_life_s)
            np.add.at(usage, association[unfinished], ran_s * cores[unfinished])
            behind = int(np.searchsorted(workload.submit_s, now_s + period_s))
            unfinished = np.append(unfinished[(start_s == NOT_YET) | (end_s > now_s)], np.arange(submitted, behind))
            waiting = unfinished[state.start_s[unfinished] == NOT_YET]
            age = np.clip((now_s - workload.submit_s[waiting]) / weights.max_age_s, 0, 1)
            fair_share = self._fair_share(usage)[association[waiting]]
            priority = np.floor(fixed[waiting] + weights.age * age + weights.fair_share * fair_share)
            workload.rank[waiting[np.lexsort((waiting, -priority, -tier[waiting]))]] = np.arange(len(waiting))
            sort_waiting(case, state)
            submitted, before_s = behind, now_s
            yield now_s + period_s - 1

    def _fair_share(self, usage: Float64) -> Float64:
        if self.weights.is_fair_tree:
            return fair_tree_factors(self.tree, usage)
        return classic_factors(self.tree, usage, self.weights.dampening)

    def _fixed(self, case: MixedCase) -> Float64:
        """Return the part of each kept job's priority that does not change."""
        weights, nodes = self.weights, case.cluster.nodes
        size = _by_job(case, [each.least_nodes for each in case.request_of])
        share = (nodes + 1 - size) / nodes if weights.favor_small else size / nodes
        partition, qos = self.partition[case.kept], self.qos[case.kept]
        found = weights.job_size * share + weights.partition * partition + weights.qos * qos - self.nice[case.kept]
        return np.asarray(found, dtype=np.float64)


def _by_job(case: MixedCase, by_class: list[int]) -> Int64:
    return np.array(by_class, dtype=np.int64)[case.workload.request_class]


def sort_waiting(case: MixedCase, state: MixedState) -> None:
    """Sort the queue of each group by the ranks, and let its next pass begin anew."""
    waiting, hole = state.waiting, len(case.tables.class_group)
    for group in state.groups:
        positions = np.arange(group["head"], group["tail"])
        positions = positions[waiting.request_class[positions] != hole]
        order = positions[np.argsort(case.workload.rank[waiting.job[positions]], kind="stable")]
        target = slice(int(group["first"]), int(group["first"]) + len(order))
        for column in (waiting.job, waiting.request_class, waiting.hold_s, waiting.passed_over_s):
            column[target] = column[order]
        group["head"] = group["passed_over"] = group["first"]
        group["tail"] = target.stop
        if not group["is_simple"]:
            jobs = waiting.job[group["head"] : group["tail"]][::-1]
            state.place[case.workload.record[jobs]] = case.workload.rank[jobs]
            group["ordered"] = NOT_YET
        group["is_stale"] = group["is_due"] = group["is_backfill_due"] = 1
