"""Which priorities have to be written so that the queue stands as wanted: none where it does already."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from plugin.queue_hook.standing import Standing


def to_write(standings: Sequence[Standing], wanted: Mapping[str, int], group: Mapping[str, int]) -> set[str]:
    """Return the jobs whose priority has to become `wanted`, the site's where that says nothing.

    `group` numbers the windows by job. Priorities age, so what counts is the order of all pending jobs, not the values:
    a window that stands as wanted is left alone. What was changed of jobs outside windows is always undone.
    """
    ids = [each.job.job_id for each in standings]
    number = np.array([each.number for each in standings], np.int64)
    aim = np.array([wanted.get(each.job.job_id, each.site) for each in standings], np.int64)
    inside = np.array([group.get(each, -1) for each in ids], np.int64)
    now = np.array([each.job.priority for each in standings], np.int64)
    now = np.where(inside < 0, aim, now)
    differs = np.zeros(len(ids), np.bool_)
    places, aimed = _places(now, number), _places(aim, number)
    if not np.array_equal(places, aimed):
        moved = np.unique(inside[places != aimed])
        differs = np.isin(inside, moved[moved >= 0])
        if not np.array_equal(_places(np.where(differs, aim, now), number), aimed):
            differs = inside >= 0
    differs &= now != aim
    undone = [each.job.job_id for each in standings if each.share and each.job.job_id not in group]
    return {ids[at] for at in np.flatnonzero(differs)} | set(undone)


def _places(value: Int64, number: Int64) -> NDArray[np.intp]:
    """Return the place of each job: larger values first, then smaller job numbers."""
    places = np.empty(len(value), np.intp)
    places[np.lexsort((number, -value))] = np.arange(len(value))
    return places
