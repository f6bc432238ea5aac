"""The ledger: every decision, action, state, reading, price and cost, in SQLite or PostgreSQL.

`ledger` is the entry for writers: rows (`rows`) wait in `backlog`, and one thread (`writer`) writes them into
`tables`. `database` opens, updates and copies the database, `lease` admits one agent only, `prune` deletes old rows.
`records`, `job_costs`, `node_energy` and `prices` answer questions over a connection of `database.open_ledger`;
`meter_choice` says which meter of a node counts.
"""
