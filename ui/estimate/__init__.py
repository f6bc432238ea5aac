"""`offpeak estimate`: what the cluster used and paid lately, and what other policies would have saved.

`command` parses, `answer` replays and prints; `accounting_source` finds the accounting, also for other commands.
"""
