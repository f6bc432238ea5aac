"""The status page and the metrics: a service of its own, which asks the agent and reads the ledger."""
