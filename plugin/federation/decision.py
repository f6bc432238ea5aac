"""What a policy answers: a site for each job, or nobody, and why."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Float64, Int64
from plugin.federation.predictions import Predictions

NOBODY = -1


class Why(IntEnum):
    """The reason of a choice."""

    IMPOSSIBLE = 0
    NEXT_CYCLE = 1
    HOME = 2
    NOT_AT_HOME = 3
    TURN = 4
    IDLE = 5
    SHORTEST_WAIT = 6
    LEAST = 7
    NEXT_BEST = 8
    NONE_IN_TIME = 9
    ALL_QUEUES_LONG = 10
    CHEAPEST = 11
    GIVES_WAY = 12


@dataclass(frozen=True, eq=False)
class Decision:
    """Of each of the n jobs the number of its `site`, NOBODY where it gets none now, and `why` (a `Why`), int8[n].

    `score` float64[n, m] is what the policy compared, the lower the better, inf where it saw no choice. `predicted` is
    what it knew at the end, and `turn` the site that comes next by turns.
    """

    site: Int64
    why: NDArray[np.int8]
    score: Float64
    predicted: Predictions
    turn: int = 0

    def __len__(self) -> int:
        return len(self.site)
