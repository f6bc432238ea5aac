"""What runs as a daemon or answers one: agent, broker of a federation, status page with its metrics, and the accounts.

`agent.service`, `broker.servers` and `page.server` have the entries of the daemons; the commands in ui/ start them. The
agent observes, decides by plugin/ and power/, and acts through the door. Its socket (`agent.requests`, `agent.status`)
serves the commands, the page and the broker. `accounts` has the energy and money of jobs and nodes, which the agent
writes into the ledger.
"""
