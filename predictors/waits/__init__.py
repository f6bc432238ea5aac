"""Predictors of queue waits behind one port, and an arbiter over them.

`questions` defines questions and outcomes. `states` converts the machine's state at submission to a row of numbers.
`similar_jobs`, `boosted` and the predictors of `registry` answer, and its arbiter weighs their answers.
"""
