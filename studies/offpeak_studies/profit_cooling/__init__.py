"""The study of "Optimizing profit and cooling costs in HPC cluster scheduling", re-run.

`solvers` has all solvers behind one port, `heuristics` and `cp_solver` what they search with, `rule_based` the paper's
schedulers, and `upper_bound` a bound on the profit of all plans. `run` holds the machine, the scenarios and the jobs,
and plans day after day; `study` is the entry, with the tables and figures beside the paper's.
"""
