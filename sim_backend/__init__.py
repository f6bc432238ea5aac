"""The bundled simulated backend: a scheduling engine, readers of job logs, workload models and simulated hardware.

A log is read (`traces`) or generated (`workloads`), laid on prices and a machine (`case`), and replayed under a policy
(`replay`, `powered_replay`) by the compiled `engine`. `compare` is the entry: it replays several policies and charges
each one; `outcome` holds the figures. `grid` runs several engines beside a broker. `scheduler`, `pbs_standin`,
`local_slurm` and `virtual` simulate a site's scheduler and its hardware for demos and tests.
"""
