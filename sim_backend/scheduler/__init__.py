"""A scheduler in memory, stepped by a clock: for demonstrations and tests.

`cluster` holds its jobs and nodes and moves them on in time; `simulated` puts it behind the port of all schedulers.
"""
