"""The ground of offpeak: what every other package uses, and nothing that knows a scheduler, a driver or a daemon.

`model` holds the values (jobs, nodes, snapshots, series over time, units), `settings` the table of all settings,
`prices` what electricity costs, `machines` the inventory, `door` the one way to an effect, `ledger` the record of
what was decided and done. The loose files are tools: errors, texts, files, processes, compiled kernels, HTTP
sessions, the installation. Everything above imports from here; nothing here imports from above.
"""
