"""The cheapest of all largest assignments of jobs to sites, by minimum cost maximum flow, and the costs of its arcs.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.3.1 and figure 1.
Each job sends one unit of flow over one of its arcs to a site; each site passes on as many as it takes in a cycle.
The costs are time, money, CO2 and energy, brought to one scale and weighted: equations (4) to (6), whose two terms are
the first two here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from offpeak.model.arrays import Float64, Int64
from plugin.federation.cycle import NO_SITE, WHOLE_PERCENT, GridCycle, Predictions, Weights
from plugin.federation.jobs import Goal

INTEGER_SCALE = 100
# A thousand times the range: beyond it the solver's integers would overflow, and no site is meant.
HIGHEST_COST = 1e5


@dataclass(frozen=True)
class CostScale:
    """The least and the range of each of the four terms over the cycle's arcs (the paper's normalisation)."""

    least: tuple[float, ...]
    extent: tuple[float, ...]

    def of(self, term: Float64, number: int) -> Float64:
        """Return the term from 0 to 1; 0 everywhere if it is the same everywhere."""
        if self.extent[number] == 0:
            return np.zeros_like(term)
        return np.asarray((term - self.least[number]) / self.extent[number])


def cost_terms(predicted: Predictions) -> Sequence[Float64]:
    """Return time, cost, CO2 and energy, in the order of `Goal` and of `Weights`."""
    return predicted.response_s, predicted.cost, predicted.co2_g, predicted.energy_j


def scale_of(predicted: Predictions, allowed: NDArray[np.bool_]) -> CostScale:
    """Return the scale of a cycle's first predictions, over the allowed arcs, of which there is at least one."""
    among = [term[allowed] for term in cost_terms(predicted)]
    return CostScale(tuple(float(each.min()) for each in among), tuple(float(np.ptp(each)) for each in among))


def weights_of(cycle: GridCycle) -> Float64:
    """Return each job's weights in per cent, float64[n, 4]: all on its owner's goal, the rules' where there is none."""
    usual: Weights = cycle.rules.weights
    weights = np.tile((usual.time, usual.cost, usual.co2, usual.energy), (len(cycle.jobs), 1))
    for goal in (Goal.TIME, Goal.COST, Goal.CO2, Goal.ENERGY):
        weights[cycle.jobs.goal == goal] = np.eye(weights.shape[1])[goal] * WHOLE_PERCENT
    return weights


def flow_cost(predicted: Predictions, weights: Float64, scale: CostScale) -> Float64:
    """Return the cost of each job at each site, float64[n, m]: from 0 to 100 on the scale that it was made with."""
    each = [weights[:, [number]] * scale.of(term, number) for number, term in enumerate(cost_terms(predicted))]
    return np.asarray(sum(each))


def cost_per_second(weights: Float64, scale: CostScale) -> Float64:
    """Return what each second of a job's response time costs, float64[n]."""
    extent_s = scale.extent[Goal.TIME]
    return np.asarray(weights[:, Goal.TIME] / extent_s if extent_s else np.zeros(len(weights)))


def integer_costs(cost: Float64, allowed: NDArray[np.bool_]) -> Int64:
    """Return the costs as the flow takes them: a hundredfold and rounded; 0 where they do not count."""
    scaled = np.rint(np.where(allowed, np.minimum(cost, HIGHEST_COST), 0.0) * INTEGER_SCALE)
    return np.asarray(scaled, np.int64)


def need_or_tools() -> None:
    """Raise BadInput without OR-tools."""
    if find_spec("ortools") is None:
        raise missing_extra("a policy by minimum cost maximum flow", "federation", "OR-tools")


def cheapest_flow(cost: Int64, allowed: NDArray[np.bool_], most: Int64) -> Int64:
    """Return the site of each job, NO_SITE for some if not all find a place; int64[n].

    `cost` int64[n, m] counts where `allowed`; site j takes at most `most[j]` jobs. As many jobs as possible get a site,
    at the least sum of costs. The same question has the same answer, and a number added to all costs changes nothing.
    BadInput without OR-tools, whatever is asked.
    """
    need_or_tools()
    site = np.full(len(cost), NO_SITE, np.int64)
    job, to = np.nonzero(allowed)
    if len(job):
        arc_cost = cost[allowed] - cost[allowed].min()
        used = _solve(job, to, arc_cost, np.minimum(most, len(cost)))
        site[job[used]] = to[used]
    return site


def _solve(job: Int64, to: Int64, cost: Int64, most: Int64) -> NDArray[np.bool_]:
    """Return which arcs from jobs to sites have flow."""
    jobs, sites = int(job.max()) + 1, len(most)
    sink = jobs + sites
    network = _new_network()
    arcs = network.add_arcs_with_capacity_and_unit_cost(job, jobs + to, np.ones(len(job), np.int64), cost)
    into_sink = np.arange(jobs, sink)
    network.add_arcs_with_capacity_and_unit_cost(into_sink, np.full(sites, sink), most, np.zeros(sites, np.int64))
    sends = np.unique(job)
    network.set_nodes_supplies(np.append(sends, sink), np.append(np.ones(len(sends), np.int64), -len(sends)))
    status = network.solve_max_flow_with_min_cost()
    if status != network.OPTIMAL:
        raise OffpeakError(f"the flow of {len(sends)} jobs to {sites} sites was not solved: {status}")
    return np.asarray(network.flows(arcs) > 0)


def _new_network() -> Any:
    # Imported here: it takes a third of a second, and only policies of this kind need it.
    from ortools.graph.python import min_cost_flow

    return min_cost_flow.SimpleMinCostFlow()
