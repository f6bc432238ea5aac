"""A plan: when each job starts and on which nodes, or that it has to wait for tomorrow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from plugin.planner.problem import Work

TOMORROW = -1


@dataclass(frozen=True, eq=False)
class Plan:
    """`start_s[i]` is the start of job i, TOMORROW if it gets none in this plan.

    `node` holds the nodes of all jobs one after the other, as many for each as it has units, TOMORROW where it has no
    start: those of job i begin at `first_unit(work)[i]`. `solver` says who made it, `note` why it is not the plan of
    the solver that was asked: empty where it is.
    """

    start_s: Int64
    node: Int64
    solver: str
    note: str = ""

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Which jobs have a start."""
        return np.asarray(self.start_s != TOMORROW)


def first_unit(work: Work) -> Int64:
    """Return where the units of each job begin among those of all jobs, and where the last ends; int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(work.units)])


def empty_plan(work: Work, solver: str) -> Plan:
    """Return the plan that starts nothing."""
    return Plan(np.full(len(work), TOMORROW), np.full(int(work.units.sum()), TOMORROW), solver)
