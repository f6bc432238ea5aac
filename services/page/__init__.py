"""The status page and the metrics: a service of its own, which asks the agent and reads the ledger.

`server.run_page` is the entry. `event_stream` reads agent and ledger while browsers follow the page, `power_history`
gives the power of the last day, `metrics` answers Prometheus, and `access` decides about every request. The page
changes nothing.
"""
