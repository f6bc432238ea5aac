"""Yang et al., "Integrating dynamic pricing of electricity into energy aware scheduling for HPC systems", SC 2013.

`experiment` says what is varied and how a log is laid out, `run` replays one experiment, `plan` holds the
paper's figures, the open assumptions and the experiments of all tables, `tables` and `figure` show the results,
`study` is the entry.
"""
