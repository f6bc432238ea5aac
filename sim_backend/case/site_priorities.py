"""In which order the jobs of a log wait on a cluster: by submission, by recorded priorities, or by Slurm's formula.

The file of the cluster or its scheduler says which; without it the priorities that the log records count. The accounts
and users of the log are looked up in those of the cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.jobs import Jobs, LogNames
from offpeak.model.limits import PriorityOrder, PriorityWeights, ShareAccount
from offpeak.model.request import Request
from offpeak.sim_backend.engine.priorities import ROOT, Priorities, ShareTree
from offpeak.text import counted

_BY_TIER = "jobs start by the tier of their partition, then by"


@dataclass(frozen=True)
class SitePriorities:
    """Slurm's multifactor priority for the jobs of a log.

    `row` is the row of the tree for each pair of account and user, which `pair` codes in rising order for `users`.
    """

    weights: PriorityWeights
    tree: ShareTree
    pair: Int64
    row: Int64
    users: int

    def for_jobs(self, jobs: Jobs, requests: Sequence[Request], cluster: Cluster) -> Priorities:
        """Return the parts of the priorities of these jobs, each with a class in `requests`."""
        assert jobs.request is not None
        partition = np.array([cluster.partition_factor(each) for each in requests], dtype=np.float64)
        qos = np.array([cluster.qos_factor(each) for each in requests], dtype=np.float64)
        return Priorities(
            weights=self.weights,
            tree=self.tree,
            association=self.row[np.searchsorted(self.pair, _pairs(jobs, self.users))],
            partition=partition[jobs.request],
            qos=qos[jobs.request],
            nice=np.zeros(len(jobs), dtype=np.int64),
        )


def _pairs(jobs: Jobs, users: int) -> Int64:
    """Return a code of the account and the user of each job; the unknown ones are -1."""
    return (jobs.group + 1) * (users + 1) + jobs.user + 1


def order_of(jobs: Jobs, cluster: Cluster) -> PriorityOrder:
    """Return the order in which the jobs of one tier wait."""
    order = cluster.priority.order if cluster.priority else PriorityOrder.RECORDED
    return PriorityOrder.SUBMISSION if order is PriorityOrder.RECORDED and jobs.priority is None else order


def ordered(jobs: Jobs, order: PriorityOrder) -> tuple[Int64 | None, tuple[str, ...]]:
    """Return the priorities by which jobs are ordered, None for no such order, and a line on the jobs without one."""
    if order is not PriorityOrder.RECORDED or jobs.priority is None:
        return None, ()
    missing = jobs.priority < 0
    if not missing.any():
        return jobs.priority, ()
    middle = np.sort(jobs.priority[~missing])[np.count_nonzero(~missing) // 2] if not missing.all() else 0
    note = f"{counted(int(np.count_nonzero(missing)), 'job')} without a recorded priority: taken for the median"
    return np.where(missing, middle, jobs.priority), (note,)


def site_priorities(jobs: Jobs, names: LogNames, cluster: Cluster) -> tuple[SitePriorities, tuple[str, ...]]:
    """Return Slurm's priority on the accounts of the cluster, and a line on users of the log without shares there.

    Each of these has one share, in an account with one share if the cluster does not have the account. A user whose
    account the log does not tell is in the user's first account.
    """
    assert cluster.priority is not None
    tree = _Tree(cluster.priority.accounts)
    users = int(jobs.user.max(initial=-1)) + 1
    pair = np.unique(_pairs(jobs, users))
    row: list[int] = []
    unlisted = 0
    for account_code, user_code in zip(
        (pair // (users + 1) - 1).tolist(), (pair % (users + 1) - 1).tolist(), strict=True
    ):
        account, user = _name(account_code, names.group), _name(user_code, names.user)
        found = tree.user_row(account, user)
        if found is None:
            found = tree.add_user(account, user)
            unlisted += 1
        row.append(found)
    weights = cluster.priority.weights
    note = f"{counted(unlisted, 'user')} of the log without shares in the cluster: one share each"
    notes = (note,) if unlisted and weights.fair_share else ()
    return SitePriorities(weights, tree.shares(), pair, np.array(row, dtype=np.int64), users), notes


def _name(code: int, names: tuple[str, ...]) -> str:
    if code < 0:
        return ""
    return names[code] if code < len(names) else str(code)


class _Tree:
    """A tree of accounts and users that grows; a row stands behind that of its parent."""

    def __init__(self, accounts: Sequence[ShareAccount]) -> None:
        self._rows: list[tuple[int, int, bool]] = []
        self._accounts: dict[str, int] = {}
        self._users: dict[tuple[str, str], int] = {}
        self._first: dict[str, int] = {}
        by_name = {account.name: account for account in accounts}
        for account in accounts:
            above: list[ShareAccount] = []
            name = account.name
            while name in by_name and name not in self._accounts:
                above.append(by_name[name])
                name = by_name[name].parent
            for each in reversed(above):
                parent = self._accounts.get(each.parent, ROOT)
                is_removed = each.shares is None
                self._accounts[each.name] = parent if is_removed else self._add(parent, each.shares or 0, is_user=False)
        for account in accounts:
            common = None
            for user, shares in account.users:
                parent = self._accounts[account.name]
                if shares is None:
                    common = row = self._add(parent, 1, is_user=True) if common is None else common
                else:
                    row = self._add(parent, shares, is_user=True)
                self._users[account.name, user] = row
                self._first.setdefault(user, row)

    def _add(self, parent: int, shares: int, *, is_user: bool) -> int:
        self._rows.append((parent, shares, is_user))
        return len(self._rows) - 1

    def user_row(self, account: str, user: str) -> int | None:
        """Return the row of a user in an account, in the first one if the account is unknown; None for no such user."""
        return self._users.get((account, user)) if account else self._first.get(user)

    def add_user(self, account: str, user: str) -> int:
        """Add a user with one share, and the account if there is none of that name. Return the user's row."""
        if account and account not in self._accounts:
            self._accounts[account] = self._add(ROOT, 1, is_user=False)
        row = self._add(self._accounts.get(account, ROOT), 1, is_user=True)
        self._users[account, user] = row
        return row

    def shares(self) -> ShareTree:
        """Return the tree for the replay."""
        parent, shares, is_user = zip(*self._rows, strict=True)
        return ShareTree(np.array(parent), np.array(shares), np.array(is_user))


def order_note(order: PriorityOrder, cluster: Cluster) -> str:
    """Say in a line by what the jobs of one tier are ordered, and what is not modelled."""
    site = cluster.priority
    missing = [*(site.not_modelled if site else ()), "limits that the cluster file does not have"]
    if order is PriorityOrder.SUBMISSION and not (site and site.not_modelled):
        return f"priorities and limits of users are not logged: {_BY_TIER} submission"
    if order is PriorityOrder.SUBMISSION:
        what = "submission"
    elif order is PriorityOrder.RECORDED:
        what = "the priority that the log records for their start"
        missing.append("priorities that change while jobs wait")
    else:
        assert site is not None
        weights = {
            "age": site.weights.age,
            "fair share" if site.weights.is_fair_tree else "classic fair share": site.weights.fair_share,
            "job size": site.weights.job_size,
            "partition": site.weights.partition,
            "QOS": site.weights.qos,
        }
        named = ", ".join(f"{name} {weight:,}" for name, weight in weights.items() if weight)
        what = f"Slurm's multifactor priority ({named or 'without weights'})"
        missing += ["nice", "usage before the log"] if site.weights.fair_share else ["nice"]
    return f"{_BY_TIER} {what}; not modelled: {', '.join(missing)}"
