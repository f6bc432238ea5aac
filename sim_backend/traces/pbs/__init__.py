"""Accounting logs of Torque and OpenPBS (server_priv/accounting).

`read` is the entry. `log` parses the lines into columns: the runs that ended, and the state of the other jobs.
"""
