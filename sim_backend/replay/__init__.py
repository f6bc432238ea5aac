"""A replay of a log under one policy: when would each job have started?

`policy` names the discipline and the policies on top of it. `schedule` replays on nodes that are always on, `powered`
on nodes that sleep; both drive the compiled `engine`.
"""
