"""The event-driven engine: arrays hold the state, compiled kernels advance it.

`state` holds the arrays and the scheduling rules. `advance` is the entry for a machine whose nodes are always on: it
takes events, then a pass over the `queue` starts jobs by `backfill` (`running_jobs`, `window`). `advance_powered` is
the entry for nodes that sleep: `power` holds their state, `power_capacity` decides, `power_transitions` moves the
nodes, `power_jobs` places jobs on them. These kernels are in separate files, so that the plain engine compiles without
them.
"""
