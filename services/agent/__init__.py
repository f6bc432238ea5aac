"""The agent: the loops of queue and power in one process, and the socket over which it answers.

`run.run_agent` is the entry. `site_context` holds what is made from the settings, `observer` reads the scheduler,
`agent` puts the loops together (`queue_loop`, `power_loop`, `plan_loop`, `feed_loops`, `accounting_loops`), and
`service` runs them under systemd. Data flows from observer and feeds to the decisions of plugin/ and power/, through
the doors of `site_context` to nodes and scheduler, and into the ledger. `reports` and `socket_server` publish the
result; `client` reads it.
"""
