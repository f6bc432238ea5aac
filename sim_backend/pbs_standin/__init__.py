"""The simulated scheduler as Torque or OpenPBS: programs that answer in the formats of real ones.

`server` is the entry: it listens on a socket, and the programs that it writes (qstat, qsub, ...) send their arguments
there. `commands` does what each program is called for with the server's `pbs` (jobs, nodes, attributes), jobs through
`submission` and its hooks; `output` prints the answer.
"""
