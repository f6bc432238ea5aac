"""Predicts how soon idle nodes are needed again, from the use of the cluster: by rank, idle time and hour of day.

Level l is in use while the jobs need more than l nodes. Of the levels that are not, rank 1 is the one that is needed
first. A level that has been idle for long is needed later than one that was just used, a high rank later than a low
one, and all of them later in the evening than in the morning.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import index, part
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, HOUR_S

STEP_S = 300
STEPS_AHEAD = 24
"""Each observation is followed for two hours; a later need does not count."""

HOURS = 24
AGES, RANKS = 10, 8
KINDS = RANKS * AGES

NARROW = 10.0
"""The weight of a need of a single node against that of a node of a wide job: it alone delays its job."""

DOUBT_S = 5.0 * DAY_S
"""The idle time after which an hour of the day weighs as much as all hours together."""

FIRST_NEEDS, FIRST_IDLE_S = 1.0, 4000.0
"""The prior of a rank and idle time without an observation."""

NEVER_USED = -(1 << 40)

WAKE_AHEAD_AT = 3
"""How much likelier a need must be to wake a node for it: a node that is not needed then costs a power cycle."""


class NeedRecord(NamedTuple):
    """The observations of nodes of the same kind, one every `STEP_S`.

    A kind is a range of ranks and a range of idle times. `needs` float64[HOURS + 1, KINDS]: what the jobs came to need,
    each weighing 1 + NARROW / nodes that they came to need at that time; `idle_s`, of the same shape: the idle seconds
    before that. The last row is of all hours. `used_s` int64[nodes]: when each level was last in use. Of the last
    moments, the present one in row `moments` modulo STEPS_AHEAD + 1: `needed` nodes, `hour`, and `kind` int64[nodes] of
    the levels that were idle.
    """

    needs: Float64
    idle_s: Float64
    used_s: Int64
    needed: Int64
    hour: Int64
    kind: NDArray[np.int64]
    moments: Int64


def new_record(nodes: int) -> NeedRecord:
    """Return the record of a cluster without observations."""
    ring_size = STEPS_AHEAD + 1
    return NeedRecord(
        needs=np.zeros((HOURS + 1, KINDS)),
        idle_s=np.zeros((HOURS + 1, KINDS)),
        used_s=np.full(nodes, NEVER_USED),
        needed=np.zeros(ring_size, dtype=np.int64),
        hour=np.zeros(ring_size, dtype=np.int64),
        kind=np.zeros((ring_size, nodes), dtype=np.int64),
        moments=np.zeros(1, dtype=np.int64),
    )


@part
def observe_need(record: NeedRecord, now_s: int, needed: int) -> None:
    """Record the number of nodes that jobs need now, and learn from the moment two hours ago."""
    record.moments[0] += 1
    row = index(record.moments[0] % (STEPS_AHEAD + 1))
    record.needed[row] = needed
    if record.moments[0] > STEPS_AHEAD:
        learn_from_moment(record, record.moments[0] - STEPS_AHEAD)
    record.hour[row] = now_s // HOUR_S % HOURS
    for level in range(needed):
        record.used_s[index(level)] = now_s
    for level in range(needed, len(record.used_s)):
        rank = doublings(level - needed + 1, RANKS)
        age = doublings((now_s - record.used_s[index(level)]) // STEP_S * 2, AGES)
        record.kind[row, index(level)] = rank * AGES + age


@part
def doublings(value: int, most: int) -> int:
    """Return the binary logarithm of `value`, rounded down, between 0 and `most` - 1."""
    count = 0
    while value >= 2 and count < most - 1:
        value >>= 1
        count += 1
    return count


@part
def learn_from_moment(record: NeedRecord, moment: int) -> None:
    """Add to the record how long the levels that were idle at a moment stayed idle."""
    then = index(moment % (STEPS_AHEAD + 1))
    level = record.needed[then]
    before = level
    for step in range(1, STEPS_AHEAD + 1):
        needed = record.needed[index((moment + step) % (STEPS_AHEAD + 1))]
        while level < needed:
            add_need(record, then, level, 1 + NARROW / (needed - before), step)
            level += 1
        before = needed
    for unneeded in range(level, len(record.used_s)):
        add_need(record, then, unneeded, 0.0, STEPS_AHEAD)


@part
def add_need(record: NeedRecord, then: np.uintp, level: int, need: float, steps: int) -> None:
    """Count a need of an idle level and the idle time before it, for its hour and for all hours."""
    kind = index(record.kind[then, index(level)])
    for row in (index(record.hour[then]), index(HOURS)):
        record.needs[row, kind] += need
        record.idle_s[row, kind] += steps * STEP_S


@part
def last_rank(record: NeedRecord, needs_per_s: float) -> int:
    """Return the last rank of the idle levels with at least that expected rate of needs, or 0."""
    row = index(record.moments[0] % (STEPS_AHEAD + 1))
    needed = record.needed[row]
    for level in range(len(record.used_s) - 1, needed - 1, -1):
        if need_rate(record, row, level) >= needs_per_s:
            return int(level - needed + 1)
    return 0


@part
def need_rate(record: NeedRecord, row: np.uintp, level: int) -> float:
    """Return the expected rate of needs of an idle level [1/s]."""
    hour = index(record.hour[row])
    kind = index(record.kind[row, index(level)])
    all_hours = index(HOURS)
    usual = (record.needs[all_hours, kind] + FIRST_NEEDS) / (record.idle_s[all_hours, kind] + FIRST_IDLE_S)
    return float((record.needs[hour, kind] + usual * DOUBT_S) / (record.idle_s[hour, kind] + DOUBT_S))
