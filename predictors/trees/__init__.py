"""Gradient-boosted trees as plain arrays, and the running statistics of jobs that they look at."""
