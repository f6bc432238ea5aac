"""Lawson and Smirni, "Power-aware resource allocation in high-end systems via online simulation", ICS 2005.

`run` runs one experiment, `plan` holds the logs with their setups and the experiments of all tables, `tables` shows
the results, `study` is the entry and draws the figures.
"""
