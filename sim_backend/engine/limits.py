"""Limits in a replay: licences, QOS and the tasks of arrays, counted while jobs run.

As in Slurm, a job whose limit is used up is left out of a pass: it gets no reservation and blocks no other job.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from offpeak.compiled import apart, index, part
from offpeak.model.arrays import Int64
from offpeak.model.limits import Limit
from offpeak.sim_backend.engine.rules import NEVER

NONE = -1
NO_LIMITS = 0
"""The demand of jobs without limits."""


class Limits(NamedTuple):
    """What running jobs take of limits, never written by the kernels.

    Job j takes `amount` of `limit` in the rows from `first[demand[j]]` to `first[demand[j] + 1]`. By limit: `most` may
    be taken at a time, and `largest` is the most that a job takes.
    """

    demand: Int64
    first: Int64
    limit: Int64
    amount: Int64
    most: Int64
    largest: Int64


@part
def is_limited(limits: Limits, used: Int64, job: int) -> bool:
    """Tell whether the job must wait for one of its limits."""
    demand = limits.demand[index(job)]
    return bool(demand != NO_LIMITS and exceeds(limits, used, demand))


@apart
def exceeds(limits: Limits, used: Int64, demand: int) -> bool:
    """Tell whether a limit has not enough left for the demand."""
    for row in range(limits.first[index(demand)], limits.first[index(demand + 1)]):
        limit = index(limits.limit[index(row)])
        if used[limit] + limits.amount[index(row)] > limits.most[limit]:
            return True
    return False


@apart
def most_more(limits: Limits, used: Int64, demand: int) -> int:
    """Return how many more jobs of the demand the limits let run at a time."""
    found = NEVER
    for row in range(limits.first[index(demand)], limits.first[index(demand + 1)]):
        limit = index(limits.limit[index(row)])
        found = min(found, (limits.most[limit] - used[limit]) // max(1, limits.amount[index(row)]))
    return int(max(0, found))


@part
def change_limits(limits: Limits, used: Int64, job: int, sign: int) -> bool:
    """Count the job as running (1) or ended (-1); return whether another job may wait while it runs."""
    demand = limits.demand[index(job)]
    return bool(demand != NO_LIMITS and change_demand(limits, used, demand, sign))


@apart
def change_demand(limits: Limits, used: Int64, demand: int, sign: int) -> bool:
    """Take the demand, or give it back; return whether a limit has too little left for another while it is taken."""
    is_tight = False
    for row in range(limits.first[index(demand)], limits.first[index(demand + 1)]):
        limit = index(limits.limit[index(row)])
        before = used[limit]
        used[limit] += sign * limits.amount[index(row)]
        is_tight = is_tight or max(before, used[limit]) + limits.largest[limit] > limits.most[limit]
    return is_tight


def no_limits(jobs: int) -> Limits:
    """Return the limits of so many jobs that have none."""
    none = np.zeros(0, dtype=np.int64)
    return Limits(np.zeros(jobs, dtype=np.int64), np.zeros(2, dtype=np.int64), none, none, none, none)


def limits_for(
    of_class: Sequence[Sequence[tuple[Limit, int]]], job_class: Int64, user: Int64, array: Int64, throttle: Int64
) -> Limits:
    """Return the limits of jobs by their class, user and array; -1 is no user, whom no limit counts, and no array.

    `of_class` are the limits of each class with what a job takes of them. `throttle` is by job: how many tasks of its
    array may run at a time, 0 for any number.
    """
    has_limits = np.array([bool(some) for some in of_class], dtype=bool)[job_class]
    by_user = np.array([any(limit.per_user for limit, _ in some) for some in of_class], dtype=bool)[job_class]
    names, number = np.unique(array, return_inverse=True)
    most_tasks = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(most_tasks, number, throttle)
    is_throttled = (array != NONE) & (most_tasks[number] > 0)
    if not has_limits.any() and not is_throttled.any():
        return no_limits(len(job_class))
    keys = (np.where(has_limits, job_class, NONE), np.where(by_user, user, NONE), np.where(is_throttled, number, NONE))
    found, demand = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    numbers: dict[object, int] = {}
    first, limits, amounts, most = [0, 0], [], [], []
    if len(found) and (found[0] == NONE).all():
        found = found[1:]
    else:
        demand += 1
    for class_number, one_user, one_array in found.tolist():
        rows = [
            ((limit, one_user if limit.per_user else NONE), amount, limit.most)
            for limit, amount in (of_class[class_number] if class_number != NONE else ())
            if not limit.per_user or one_user != NONE
        ]
        if one_array != NONE:
            rows.append(((one_array, "array"), 1, int(most_tasks[one_array])))
        for key, amount, allowed in rows:
            if key not in numbers:
                most.append(allowed)
            limits.append(numbers.setdefault(key, len(numbers)))
            amounts.append(amount)
        first.append(len(limits))
    largest = np.zeros(len(most), dtype=np.int64)
    np.maximum.at(largest, np.array(limits, dtype=np.int64), np.array(amounts, dtype=np.int64))
    return Limits(
        demand=demand.astype(np.int64).reshape(-1),
        first=np.array(first, dtype=np.int64),
        limit=np.array(limits, dtype=np.int64),
        amount=np.array(amounts, dtype=np.int64),
        most=np.array(most, dtype=np.int64),
        largest=largest,
    )
