"""One scheduling cycle of the grid: inputs, predictions, and the decision of a policy.

A cycle has the jobs, the states of the sites, their electricity, and the rules of the policies. Predictions are the
matrices by which policies choose: time and cost of each job at each site. A decision is a site for each job, or none,
with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series
from offpeak.model.weighing import PAPER_WEIGHTS, Weights
from plugin.federation.jobs import Goal, GridJobs
from plugin.federation.sites import Grid


@dataclass(frozen=True, eq=False)
class SiteStates:
    """The m sites at one instant: idle units, jobs in the queue, and whether their last answer is too old to count.

    `price[j]` is a series per MWh and `carbon[j]` one in g/kWh, each without gaps from now on as far as it is known or
    forecast. `left_core_s[project, j]` is the rest of the allocations, shaped like `Grid.allocated_core_s`.
    """

    idle_units: Int64
    queued: Int64
    stale: NDArray[np.bool_]
    price: tuple[Series, ...]
    carbon: tuple[Series, ...]
    left_core_s: Float64


@dataclass(frozen=True)
class GridRules:
    """How policies are set.

    `goal` is what the energy- and CO2-aware policies minimise for jobs without a goal; the policy with a queue limit
    skips sites with more than `queue_limit` waiting jobs (the paper does not state its limit). `passes` is how many
    answers the flow policies compare, see plugin.federation.metaschedule; with 1, as in the paper, the jobs of a cycle
    ignore each other.
    """

    weights: Weights = PAPER_WEIGHTS
    goal: Goal = Goal.CO2
    queue_limit: int = 10
    passes: int = 3

    def __post_init__(self) -> None:
        if self.passes < 1:
            raise BadInput(f"{self.passes} passes solve nothing", hint="give 1, as in the paper, or more")


@dataclass(frozen=True, eq=False)
class GridCycle:
    """One scheduling cycle at `now_s` [Unix s].

    `wait_s` float64[n, m] is how long each of the n jobs would wait in the queue of each of the m sites, submitted now
    and alone; where that is not known, NaN or inf, the job cannot go. `misfits` says of jobs, by their number and that
    of the site, why they cannot go there, beside the limits in the file of sites. `turn` is the next site by turns.
    """

    now_s: int
    grid: Grid
    jobs: GridJobs
    states: SiteStates
    wait_s: Float64
    rules: GridRules = GridRules()
    turn: int = 0
    misfits: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @property
    def pue(self) -> Float64:
        """The PUE of each site at its present load, float64[m]."""
        busy = np.clip(self.grid.units - self.states.idle_units, 0, self.grid.units)
        return np.array([float(site.pue_at(units)) for site, units in zip(self.grid.sites, busy, strict=True)])


@dataclass(frozen=True, eq=False)
class Predictions:
    """Matrices [n jobs, m sites].

    `units` a job takes there, `delay_s` until it starts (its wait in the queue, or its data's way if that is longer),
    `runtime_s`, `energy_j` at the site's meter (PUE included), `cost` in the currency of the prices, `co2_g`. What is
    not `compatible` can never run there as things are; its figures mean nothing.
    """

    units: Int64
    delay_s: Float64
    runtime_s: Float64
    energy_j: Float64
    cost: Float64
    co2_g: Float64
    compatible: NDArray[np.bool_]

    @property
    def response_s(self) -> Float64:
        """Time from now to the end: eq. (7) of the day-ahead paper."""
        return self.delay_s + self.runtime_s


NO_SITE = -1


class DecisionReason(IntEnum):
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
class GridDecision:
    """Of each of the n jobs the number of its `site`, NO_SITE where it gets none now, and `why` (a `DecisionReason`),
    int8[n].

    `score` float64[n, m] is the value that the policy minimises, inf for impossible sites. `predicted` are its final
    predictions, and `turn` is the next site in turn.
    """

    site: Int64
    why: NDArray[np.int8]
    score: Float64
    predicted: Predictions
    turn: int = 0

    def __len__(self) -> int:
        return len(self.site)
