"""Whose values an admin has set, as far as that can be seen at first sight.

Slurm's priority/basic gives each new job one less than the lowest so far, so values fall with the job numbers. What
breaks that order was set by somebody, or is a job that was held and released: both are left alone.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from plugin.queue_hook.standing import Standing


def out_of_line(standings: Sequence[Standing]) -> list[Standing]:
    """Return the fewest jobs without which the values, less the owners' offsets, never rise with the job numbers."""
    # From the newest job back: of two that contradict each other the one that stands higher was raised by somebody.
    in_order = sorted(standings, key=attrgetter("number"), reverse=True)
    kept = set(_longest_rise([each.site - each.job.offset for each in in_order]))
    return [each for at, each in enumerate(in_order) if at not in kept]


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest part of the values that never falls."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(at_end[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at_end[length : length + 1] = [at]
    return _back_from(at_end[-1] if at_end else -1, before)


def _back_from(at: int, before: Sequence[int]) -> list[int]:
    found = []
    while at >= 0:
        found.append(at)
        at = before[at]
    return found
