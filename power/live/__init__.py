"""The power loop on a live scheduler: which nodes sleep, which nodes wake, and the next step of each. Pure decisions.

The entry is `power_plan.plan_power`: a ClusterSnapshot of the scheduler and of the node records goes in, a PowerPlan
comes out. On the way `pool_state` brings each pool of nodes into arrays, `node_demand` says how many nodes have to be
awake, `node_selection` picks the nodes, and `node_steps` gives each node its next step. `cycle_memory` goes from one
cycle to the next.
"""
