"""The status page and the metrics: a service of its own, which reads the agent's snapshot and the ledger.

`server.run_page` is the entry. `event_stream` reads agent and ledger while browsers follow the page, `power_history`
gives the power of the last day, `metrics` answers Prometheus, and `access` decides about every request. The page
only reads.
"""
