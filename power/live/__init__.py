"""The power loop on a live scheduler: which nodes sleep, which nodes wake, and the next step of each. Pure decisions.

The entry is `power_plan.plan_power`: a ClusterSnapshot and the PowerMemory of the last cycle go in, a PowerPlan comes
out. On the way `observe` makes a row of each node, `pools` brings the rows of nodes that compete for the same jobs into
columns, `decide` picks the nodes that sleep and wake, `power_cap` changes that below a cap on power, and `steps` orders
the next step of each node.
"""
