"""Gradient-boosted trees as plain arrays, and the running statistics of jobs that are their features.

`boosted` is the entry: a predictor of any quantity of jobs. `forest` trains forests with scikit-learn and evaluates
them without it, `running_statistics` turns categories such as users into numbers.
"""
