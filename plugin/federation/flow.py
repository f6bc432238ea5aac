"""The cheapest of all largest assignments of jobs to sites: minimum cost maximum flow.

Source: Murali and Vadhiyar, "Metascheduling of HPC jobs in day-ahead electricity markets", section 3.3.1 and figure 1.
Each job sends one unit of flow over one of its arcs to a site, each site passes on as many as it takes in a cycle.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpeak.errors import OffpeakError
from offpeak.installation import missing_extra
from offpeak.model.arrays import Int64
from plugin.federation.decision import NOBODY


def need_or_tools() -> None:
    """Raise BadInput without OR-tools."""
    if find_spec("ortools") is None:
        raise missing_extra("a policy by minimum cost maximum flow", "federation", "OR-tools")


def cheapest_flow(cost: Int64, allowed: NDArray[np.bool_], most: Int64) -> Int64:
    """Return the site of each job, NOBODY for some if not all find a place; int64[n].

    `cost` int64[n, m] counts where `allowed`; site j takes at most `most[j]` jobs. As many jobs as possible get a site,
    at the least sum of costs. The same question has the same answer, and a number added to all costs changes nothing.
    BadInput without OR-tools, whatever is asked.
    """
    need_or_tools()
    site = np.full(len(cost), NOBODY, np.int64)
    job, to = np.nonzero(allowed)
    if len(job):
        arc_cost = cost[allowed] - cost[allowed].min()
        used = _solved(job, to, arc_cost, np.minimum(most, len(cost)))
        site[job[used]] = to[used]
    return site


def _solved(job: Int64, to: Int64, cost: Int64, most: Int64) -> NDArray[np.bool_]:
    """Return which arcs from jobs to sites have flow."""
    jobs, sites = int(job.max()) + 1, len(most)
    sink = jobs + sites
    network = _network()
    arcs = network.add_arcs_with_capacity_and_unit_cost(job, jobs + to, np.ones(len(job), np.int64), cost)
    into_sink = np.arange(jobs, sink)
    network.add_arcs_with_capacity_and_unit_cost(into_sink, np.full(sites, sink), most, np.zeros(sites, np.int64))
    sends = np.unique(job)
    network.set_nodes_supplies(np.append(sends, sink), np.append(np.ones(len(sends), np.int64), -len(sends)))
    status = network.solve_max_flow_with_min_cost()
    if status != network.OPTIMAL:
        raise OffpeakError(f"the flow of {len(sends)} jobs to {sites} sites was not solved: {status}")
    return np.asarray(network.flows(arcs) > 0)


def _network() -> Any:
    # Imported here: it takes a third of a second, and only policies of this kind need it.
    from ortools.graph.python import min_cost_flow

    return min_cost_flow.SimpleMinCostFlow()
