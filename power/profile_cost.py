"""What a plan under a profile uses: its jobs and its nodes, charged by the prices ahead."""

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.snapshot import Snapshot
from offpeak.model.step_integrals import J_PER_MWH, integrals
from power.power_terms import PowerTerms
from power.price_profile import PricesAhead
from power.what_if import Plan
from sim_backend.nodes.node_log import NodeLog, state_times


def energy_and_cost(
    snapshot: Snapshot, plan: Plan, log: NodeLog, prices: PricesAhead, terms: PowerTerms
) -> tuple[float, float]:
    """Return energy [J], and cost in the prices' currency.

    All nodes but failed ones are charged as if they ran nothing, until they are up again behind the profile; jobs for
    what they draw above idle nodes, to their ends, however late, so that what is moved behind the profile is not free.
    """
    start_s = np.maximum(plan.start_s, snapshot.now_s)
    times = state_times(prices.meter, log, snapshot.now_s, prices.until_s + terms.longest_wake_s)
    runs = integrals(prices.meter, start_s, plan.end_s)
    size = np.concatenate([snapshot.running.size, snapshot.queued.size])
    above_w = (terms.job_w - terms.node_class.idle_w) / snapshot.units_per_node

    def total(nodes: Int64 | Float64, jobs: Int64 | Float64) -> float:
        return float(np.dot(terms.state_w, nodes) + above_w * np.dot(size, jobs))

    return total(times.seconds, plan.end_s - start_s), total(times.integral, runs) / J_PER_MWH
