"""The study of "Optimizing profit and cooling costs in HPC cluster scheduling", re-run.

`run` holds the machine, the scenarios and the jobs, and plans day after day; `study` is the entry, with the tables and
figures beside the paper's.
"""
