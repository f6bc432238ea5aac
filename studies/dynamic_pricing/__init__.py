"""Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013.

`run` runs one experiment, `plan` holds the paper's figures, the open assumptions and the experiments of all tables,
`tables` shows the results, `study` is the entry and draws the figure.
"""
