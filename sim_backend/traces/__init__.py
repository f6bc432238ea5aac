"""Job logs in and schedules out.

`read` is the entry: it finds the format of a log and calls its reader (`swf`, `gwf`, `slurm`, `pbs`). Readers of
accounting logs parse blocks of lines into columns (`records`) and convert them to jobs. `filters` cuts a log to a
period, to a machine and to known prices.
"""
