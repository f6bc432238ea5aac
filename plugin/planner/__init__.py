"""The day-ahead planner: which job starts when and on which nodes, so that revenue less energy and cooling is largest.

`solvers` is the entry: a `Problem` and a `Budget` go in, the best `Plan` found so far comes out. `placement` and
`rule_based` make plans, `searches` and `cp_searches` improve them, `cp_solver` runs CP-SAT in a separate process.
`verify` checks a plan and computes an upper bound of its profit.
"""
