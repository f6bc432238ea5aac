"""Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005.

`experiment` says what is varied and what the paper has, `run` replays one experiment, `plan` holds the logs with
their setups and the experiments of all tables, `tables` and `figures` show the results, `study` is the entry.
"""
