"""The agent: the loops of queue and power in one process, and the socket over which it answers.

`service.run_agent` is the entry. `site_context` holds the objects made from the settings and opens the doors,
`observer` reads scheduler and feeds, `agent` registers the loops (`queue_loop`, `power_loop`, `accounting_loops`), and
`service` runs them under systemd. Data flows from observer to the decisions of plugin/ and power/, through the doors to
nodes and scheduler, and into the ledger. `reports` and `socket_server` publish the result; `status` has the values and
the client that fetches them. `restore`, `plan_once` and `node_closer` do single tasks while no agent runs.
"""
