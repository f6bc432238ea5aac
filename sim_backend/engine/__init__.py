"""The event-driven engine: arrays hold the state, compiled kernels advance it.

`state` holds the arrays and the scheduling rules. `advance` is the entry: it takes events, then a pass over the `queue`
starts jobs by `backfill` (`running_jobs`, `window`). For nodes that sleep, `power` holds their state, `power_capacity`
decides, `power_transitions` moves the nodes, `power_jobs` places jobs on them, `peak_shaving` keeps jobs back. Where
nodes are always on, none of that is compiled.
"""
