"""The day-ahead planner: which job starts when and on which nodes, so that revenue less energy and cooling is largest.

`solvers` is the entry: a `Problem` and a `Budget` go in, the best `Plan` found so far comes out. `placement` makes
plans, `searches` improves them, `cp_solver` asks CP-SAT for better starts. `verify` checks a plan and computes an upper
bound of its profit.
"""
