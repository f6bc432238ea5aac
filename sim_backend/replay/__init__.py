"""A replay of a log under one policy: when would each job have started?

`policy` names the discipline and the policies on top of it. `replay` lets the engine go on and asks the policies;
`equal_nodes` makes the replays of machines of equal units. `schedule` is the result.
"""
