"""The event-driven engine for clusters of several pools: whole nodes and shared nodes, partitions, GPUs, arrays.

`classes` makes arrays of a Cluster and its requests, `case` of the jobs. `state` holds what the kernels move: `cells`
places requests on nodes, `running` starts and ends jobs, `reservations` finds the start of a blocked job and what
others must leave to it, `queue` holds the waiting jobs of each competition group, and `advance` is the event loop. The
entry is `replay`; `priorities` computes Slurm's multifactor priority during a replay. Machines with one pool of equal
nodes are replayed sooner by offpeak.sim_backend.engine, with the same schedules.
"""
