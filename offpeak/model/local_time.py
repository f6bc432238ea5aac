"""Columns of Unix seconds to and from the seconds of a local clock.

A local second is what the wall clock shows, counted from 1970-01-01 00:00
on that clock: local // 86400 is the number of the local date. Where clocks go back a local second happens twice, where
they go forward some never happen.
"""

from datetime import tzinfo
from functools import lru_cache
from itertools import pairwise

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.step_series import sorted_once
from offpeak.model.zones import offset_at

# 1970-01-01, day 0, was a Thursday; Monday is 0 as in datetime.weekday.
WEEKDAY_OF_DAY_0 = 3


def offset_changes(zone: tzinfo, from_s: int, until_s: int) -> tuple[Int64, Int64]:
    """Return the instants [Unix s] from which an offset holds and the offsets [s]; the first is `from_s` itself.

    Looks once a day, so two changes within one day would be missed: no zone has had that.
    """
    blocks = range((from_s - 1) // BLOCK_S, until_s // BLOCK_S + 1)
    changes = [change for block in blocks for change in _changes_of_block(zone, block) if from_s < change[0] <= until_s]
    found = np.array([(from_s, offset_at(from_s, zone)), *changes], np.int64)
    return found[:, 0], found[:, 1]


BLOCK_S = 366 * DAY_S


@lru_cache(maxsize=1024)
def _changes_of_block(zone: tzinfo, block: int) -> tuple[tuple[int, int], ...]:
    """Return the instants of a block of days at which the offset changes, and the offsets. Each replay needs them."""
    days = range(block * BLOCK_S, (block + 1) * BLOCK_S + 1, DAY_S)
    changes, ahead = list[tuple[int, int]](), offset_at(days[0], zone)
    for before_s, after_s in pairwise(days):
        if (offset := offset_at(after_s, zone)) != ahead:
            changes.append((_change_between(zone, before_s, after_s), offset))
            ahead = offset
    return tuple(changes)


def _change_between(zone: tzinfo, before_s: int, after_s: int) -> int:
    old = offset_at(before_s, zone)
    while after_s - before_s > 1:
        middle = (before_s + after_s) // 2
        if offset_at(middle, zone) == old:
            before_s = middle
        else:
            after_s = middle
    return after_s


def to_local_s(unix_s: Int64, zone: tzinfo) -> Int64:
    """Return what the zone's clock shows at each instant."""
    if len(unix_s) == 0:
        return unix_s
    since, ahead = offset_changes(zone, int(unix_s.min()), int(unix_s.max()))
    return unix_s + ahead[np.searchsorted(since, unix_s, side="right") - 1]


def to_unix_s(local_s: Int64, zone: tzinfo) -> tuple[Int64, Int64]:
    """Return the first and the last instant [Unix s] at which the clock shows each local second.

    They differ in the doubled hour. For a local second that never happens both are the instant of the change.
    """
    if len(local_s) == 0:
        return local_s, local_s
    since, ahead = offset_changes(zone, int(local_s.min()) - 2 * DAY_S, int(local_s.max()) + 2 * DAY_S)
    shown_until = since[1:] + ahead[:-1]
    first = np.searchsorted(shown_until, local_s, side="right")
    last = np.searchsorted((since + ahead)[1:], local_s, side="right")
    until = np.append(since[1:], np.iinfo(np.int64).max)
    return np.maximum(local_s - ahead[first], since[first]), np.minimum(local_s - ahead[last], until[last])


def local_edges_s(clock_s: Int64, zone: tzinfo) -> Int64:
    """Return every instant at which the clock shows one of the local seconds or is changed; sorted, once each."""
    if len(clock_s) == 0:
        return clock_s
    first, last = to_unix_s(clock_s, zone)
    changes, _ = offset_changes(zone, int(first.min()), int(last.max()) + DAY_S)
    return sorted_once(first, last, changes)


def local_days(from_s: int, until_s: int, zone: tzinfo) -> Int64:
    """Return the numbers of all local dates that touch the time from `from_s` to `until_s` [Unix s]."""
    first, last = to_local_s(np.array([from_s, until_s], np.int64), zone) // DAY_S
    # A clock that is changed at midnight may show the date before or after for an hour.
    return np.arange(first - 1, last + 2, dtype=np.int64)


def weekday(local_day: Int64) -> Int64:
    """Return 0 for Monday to 6 for Sunday."""
    return (local_day + WEEKDAY_OF_DAY_0) % 7
