"""The event-driven engine: arrays hold the state, compiled kernels advance it.

`case` makes the arrays of jobs, `classes` those of a cluster and its requests: partitions, whole and shared nodes,
GPUs, arrays, limits. `state` holds what the kernels move, `rules` how they schedule. `advance` is the event loop:
`queue` holds the waiting jobs of each competition group, `cells` places requests on nodes, `running` starts and ends
jobs, `reservations` finds the start of a blocked job and what others must leave to it, `preemption` stops jobs for
others, and `priorities` computes Slurm's multifactor priority. For nodes that sleep, `pools` and `power` hold their
state, `node_events` is what they do in a second, by `power_capacity` and `power_transitions`, and `pool_jobs` gives
them to jobs.

Where it is enough to count the units of one pool, the same kernels are compiled without places (`need` of the tables
is None), which is several times faster. Only there jobs have promised starts (`promises`), move to other nodes
(`planned_wakes`) and are kept back (`peak_shaving`), and nodes fail or have several units (`node_units`).
"""
