"""The priorities that give a window its wanted order: the site's own, dealt out anew, so that nobody else is passed."""

from collections.abc import Sequence
from dataclasses import dataclass

from plugin.queue_hook.standing import LEAST, Standing
from plugin.scheduler.port import Ranking

DOUBT = 1
"""Where no less than 1 is shown, 0 or 1 may be underneath: an offset then does one less than it says."""


@dataclass(frozen=True)
class Arrangement:
    """A window in the site's order, and its positions in the wanted one. `below` is the first job behind the window.

    `pinned` are positions whose jobs are not written to; they stand at their own place in the wanted order too.
    """

    window: Sequence[Standing]
    wanted: Sequence[int]
    pinned: frozenset[int]
    below: Standing | None


def dealt(arrangement: Arrangement, ranking: Ranking) -> list[int] | None:
    """Return each window position's priority; None where equal priorities leave no room beside a pinned job.

    The site's values, largest first, go to the jobs in the wanted order. Equal ones among which the job number would
    decide otherwise are raised by the smallest steps, from below: nobody comes to stand below a job outside.
    """
    window, wanted = arrangement.window, arrangement.wanted
    values = [each.site for each in window]
    below = arrangement.below
    under = (below.site, below.number) if below else (-1, 0)
    doubt = DOUBT if ranking is Ranking.OFFSET and window[-1].site <= LEAST else 0
    settled = True
    for rank in reversed(range(len(window))):
        position = wanted[rank]
        settled = settled and position == rank
        value = window[rank].site
        if not settled:
            value = _above(under, value, window[position].number, doubt)
        if position in arrangement.pinned and value != window[rank].site:
            return None
        values[position] = value
        under = (value, window[position].number)
    return values


def _above(under: tuple[int, int], value: int, number: int, doubt: int) -> int:
    """Return the least priority from `value` on that stands above `under`, a priority and a job number."""
    least = under[0] + doubt
    return max(value, least if not doubt and number < under[1] else least + 1)
