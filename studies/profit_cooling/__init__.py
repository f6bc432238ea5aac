"""The study of "Optimizing profit and cooling costs in HPC cluster scheduling", re-run.

`experiment` holds the machine, the scenarios, the jobs and the result, `run` plans day after day, `report` holds
tables and figures beside the paper's, `study` is the entry.
"""
