"""The power loop on a live scheduler: which nodes sleep, which nodes wake, and the next step of each. Pure decisions.

The entry is `power_plan.plan_power`: a ClusterSnapshot and the PowerMemory of the last cycle go in, a PowerPlan comes
out. On the way `pool_state` brings each pool of nodes into arrays, `pool_plan` finds the targets and picks the nodes,
and `node_steps` chooses the next step of each node. `expected_waits` answers the broker.
"""
