"""Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013.

`run` runs one experiment, `plan` holds the paper's figures, the open assumptions and the experiments of all tables,
`study` is the entry and has the tables and the figure.
"""
