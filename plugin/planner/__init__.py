"""The day-ahead planner: which job starts when and on which nodes, so that revenue less energy and cooling is largest.

`problem` has the columns of a `Problem` and its `Plan`. `placement` is the entry: it places the jobs of a problem in an
order, one of `orders`, and `verify` checks what came out. `dispatch` plans battery and PV beside the load.
"""
