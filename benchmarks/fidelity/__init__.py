"""Does a real Slurm do what the engine says? Compares the same jobs on a real slurmctld and in the engine.

`homogeneous` is the first part of the bundled sample on equal nodes. `workload` generates a mixed one, which `live`
runs on slurmctld with the agent and `replay` in the mixed engine; `compare` has the arithmetic of the comparison, and
`controller_log` reads slurmctld's own timing. These benchmarks are no study, since they need a real Slurm.
"""
