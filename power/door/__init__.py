"""The doors to the nodes and to the scheduler: every effect goes through one of them, or is refused.

An Effect goes in; the interlocks refuse it, or the driver or the scheduler carries it out; the ledger records both.
`node_orders` is the entry for nodes, `scheduler_orders` for jobs and for the scheduler's view of nodes.
"""
