"""One scheduling cycle of the grid: inputs, predictions, the decision of a policy, and the choice of each job in words.

A cycle has the jobs, the states of the sites, their electricity, and the rules of the policies. Predictions are the
matrices by which policies choose: time and cost of each job at each site. A decision is a site for each job, or none,
with the reason. In the JSON of a choice times have their zone and every figure has its unit in its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.display import utc_text
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import J_PER_KWH
from offpeak.model.step_series import Series
from offpeak.model.weighing import PAPER_WEIGHTS, Weights
from offpeak.plugin.federation.jobs import Goal, GridJobs
from offpeak.plugin.federation.sites import Grid

NO_SITE = -1


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
    skips sites with more than `queue_limit` waiting jobs (the paper does not state its limit). The flow policies place
    the jobs of a cycle `together`, with their waits behind each other, or, as in the paper, each as if it were alone.
    """

    weights: Weights = PAPER_WEIGHTS
    goal: Goal = Goal.CO2
    queue_limit: int = 10
    together: bool = True


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


@dataclass(frozen=True)
class SiteEstimate:
    """What a job would take at a site: `delay_s` until it starts, run time, cores of whole units, energy, cost, CO2.

    `score` is what the policy compared, None if it saw no choice. `transfer_s` is the part for its data.
    """

    site: str
    delay_s: float
    runtime_s: float
    cores: int
    energy_j: float
    cost: float
    co2_g: float
    score: float | None
    transfer_s: float = 0.0


@dataclass(frozen=True)
class SiteMismatch:
    """Why a site cannot run a job; `passes`: it may be able to later, as its answer, price or wait is not known now."""

    site: str
    text: str
    passes: bool = False


@dataclass(frozen=True)
class SiteChoice:
    """The site of a job, None if there is none now, with the reason.

    `chosen` and `second` are the site and the best of the others, None if there is none; `misses` are the sites that
    cannot run it. A job without a site `may_wait` for the next cycle if there is a site that can run it.
    """

    job_id: int
    site: str | None
    reason: str
    chosen: SiteEstimate | None
    second: SiteEstimate | None
    misses: tuple[SiteMismatch, ...]
    may_wait: bool = False

    @property
    def is_impossible(self) -> bool:
        """Whether it is certain that no site can run the job."""
        return self.site is None and not self.may_wait and not any(miss.passes for miss in self.misses)


def choice_json(choice: SiteChoice, *, now_s: int, currency: str) -> dict[str, Any]:
    """Return the choice as JSON's objects: `site` is None if no site can have the job now."""
    second = choice.second
    return {
        "site": choice.site,
        "reason": choice.reason,
        "expected": _estimate_json(choice.chosen, now_s, currency),
        "second": None if second is None else {"site": second.site, **(_estimate_json(second, now_s, currency) or {})},
        "misses": {miss.site: miss.text for miss in choice.misses},
    }


def _estimate_json(estimate: SiteEstimate | None, now_s: int, currency: str) -> dict[str, Any] | None:
    if estimate is None:
        return None
    starts_s = now_s + estimate.delay_s
    return {
        "starts": utc_text(starts_s),
        "ends": utc_text(starts_s + estimate.runtime_s),
        "wait_s": round(estimate.delay_s),
        **({"transfer_s": round(estimate.transfer_s)} if estimate.transfer_s else {}),
        "run_s": round(estimate.runtime_s),
        "cores": estimate.cores,
        "energy_kwh": round(estimate.energy_j / J_PER_KWH, 3),
        "cost": round(estimate.cost, 4),
        "currency": currency,
        "co2_kg": round(estimate.co2_g / 1000, 3),
    }
