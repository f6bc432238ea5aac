"""A replay of a log under one policy: when would each job have started?

`policy` names the discipline and the policies on top of it. `replay` lets the engine go on and asks the policies;
`equal_nodes` is its kind for machines of equal nodes, `mixed.replay` that for several pools. `schedule` is the result.
"""
