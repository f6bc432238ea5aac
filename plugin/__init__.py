"""The scheduler's side of offpeak: policies that reorder a queue or switch nodes off, and adapters to schedulers.

`window_policy` is the port and registry of queue policies, `capacity` holds the power policies. `queue_hook` and
`day_plan` decide about the live queue, `planner` solves the planning problem. `scheduler` is the port of all
schedulers, which `slurm` and `pbs` implement. Decisions are pure: facts and rules in, plans with reasons out.
"""
