"""Nodes and watts: which nodes sleep, how they are switched, and how much power they draw. No queue, no broker, no
daemon.

`live` decides on a live scheduler with the policies of `capacity`, which use `whatif` simulations. `lifecycle` brings
each node to its desired state. `door` is the only way to nodes and to the scheduler; `interlocks` are its safety rules.
`drivers` switch nodes, `meters` measure them, `check` tests both.
"""
