"""The doors to the nodes and to the scheduler. Every effect goes through one of them or is refused.

The interlocks refuse an Effect, or the driver or the scheduler carries it out; the ledger records effect and outcome.
`node_orders` is the entry for nodes, `scheduler_orders` for jobs and for the scheduler's view of nodes.
"""
