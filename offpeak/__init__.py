"""The base package of offpeak, which every other package uses. It has no scheduler, driver or daemon.

`model` holds the values (jobs, nodes, snapshots, series over time, units), `settings` the table of all settings,
`prices` electricity prices, `machines` the inventory, `door` the only way to an effect, `ledger` the record of
decisions and actions. The other files are tools: errors, texts, files, processes, compiled kernels, HTTP sessions, the
installation. All other packages import from here; nothing here imports from them.
"""
