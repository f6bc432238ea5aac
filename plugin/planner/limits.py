"""Limits as the planner weighs them: licences and the like, of which so much may be taken at a time, on any node."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Int64

NO_DEMAND = 0
"""The demand of jobs that take nothing of any limit."""


class Demands(NamedTuple):
    """What jobs take: demand d takes `amount[r]` of `limit[r]` in the rows from `first[d]` to `first[d + 1]`."""

    first: Int64
    limit: Int64
    amount: Int64


class LimitUse(NamedTuple):
    """Columns of one length: `amount` of `limit` is taken from `from_s` to `until_s`."""

    limit: Int64
    from_s: Int64
    until_s: Int64
    amount: Int64


@dataclass(frozen=True, eq=False)
class PlanLimits:
    """At most `most[l]` of limit l may be taken at a time; `names` are for messages.

    `taken` is what jobs outside the plan take: jobs that run already, and jobs of other plans. It may exceed a limit,
    which then lets no job start.
    """

    names: tuple[str, ...]
    most: Int64
    demands: Demands
    taken: LimitUse

    def __len__(self) -> int:
        return len(self.most)

    def rows_of(self, demand: Int64) -> tuple[Int64, Int64, Int64]:
        """Return a row for each limit that jobs of these demands take: the job's place, the limit, the amount."""
        first, limit, amount = self.demands
        count = np.diff(first)[demand]
        begin = np.cumsum(count) - count
        row = np.repeat(first[demand] - begin, count) + np.arange(count.sum())
        return np.repeat(np.arange(len(demand)), count), limit[row], amount[row]

    def amounts_of(self, demand: Int64) -> Int64:
        """Return what jobs of these demands take of each limit; int64[jobs, limits]."""
        job, limit, amount = self.rows_of(demand)
        found = np.zeros((len(demand), len(self)), np.int64)
        found[job, limit] = amount
        return found


_NONE = np.zeros(0, np.int64)
UNLIMITED = PlanLimits((), _NONE, Demands(np.zeros(2, np.int64), _NONE, _NONE), LimitUse(_NONE, _NONE, _NONE, _NONE))
