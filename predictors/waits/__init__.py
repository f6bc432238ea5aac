"""Predictors of queue waits behind one port, and an arbiter over them.

`questions` defines what is asked and learned. `states` and `state_row` turn the machine's state at submission into a
row of numbers. `similar_jobs`, `boosted` and the predictors of `registry` answer; `arbiter` weighs their answers.
"""
