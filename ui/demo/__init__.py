"""`offpeak demo`: all of offpeak in a minute, on a virtual cluster.

`command` is the entry; `run` starts the agent and the page on a fast clock, `site` writes the demo's site and
its jobs, `live_cluster` is the scheduler and sums up the outcome.
"""
