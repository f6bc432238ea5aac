"""The bundled simulated backend: a scheduling engine, readers of job logs, workload models and simulated hardware.

A log is read (`traces`) or generated (`workloads`), laid on prices and a machine (`case`), and replayed under a policy
(`replay`) by the compiled `engine`. `comparison` replays several policies and charges each one; `estimate` computes the
savings on a site's own log. `grid` runs several engines with a broker. `scheduler`, `pbs_standin` and `virtual`
simulate a site's scheduler and its hardware for demos and tests.
"""
