"""The life cycle of a node: desired state, observed state, and the orders that bring one to the other.

`node_record` has the values, `node_context` the inputs of a decision on one node. `observations` and `transitions` are
the state machine; `decisions` says which orders are due. All of them are pure functions. `sweep` is the entry of the
agent: one round polls the nodes, decides, and hands the orders to the door. `admin_order` is the command line's.
"""
